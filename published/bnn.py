"""BNN: signs with a straight-through gradient, one of them by chance."""

from __future__ import annotations

from typing import Any

from conformance.kit.inputs import drawn
from conformance.kit.subject import Subject
from published.packages import enter

enter("bnn")


def _within(args: tuple[Any, ...], grads: tuple[Any, ...]) -> tuple[Any, ...]:
    """The gradient of hardtanh, as the documentation of both classes says."""
    return (grads[0] * (args[0].abs() < 1),)


sign = Subject("bnn.ops:SignActivation", inputs=drawn((4, 3)), gradient="declared", formula=_within)
stochastic_sign = Subject(
    "bnn.ops:SignActivationStochastic", inputs=drawn((4, 3)), gradient="declared", formula=_within
)
