"""BoTorch: rounding and choosing with straight-through gradients."""

from __future__ import annotations

from typing import Any

from conformance.kit.inputs import drawn
from conformance.kit.subject import Subject
from published.packages import bare, enter

bare(enter("botorch"), "botorch.utils")


def _straight(args: tuple[Any, ...], grads: tuple[Any, ...]) -> tuple[Any, ...]:
    return (grads[0],)


rounded = Subject("botorch.utils.rounding:RoundSTE", inputs=drawn((4, 3)), gradient="declared", formula=_straight)
chosen = Subject("botorch.utils.rounding:OneHotArgmaxSTE", inputs=drawn((4, 3)), gradient="declared", formula=_straight)
