"""torchdiffeq: an assignment behind autograd's back, and a value with another one's gradient."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from conformance.kit.specs import random
from conformance.kit.subject import Subject
from published.packages import enter

enter("torchdiffeq")


_SLOT = [(random((3, 4), 1), random((3,), 2), (..., 1))]


def _next() -> Iterator[tuple[Any, ...]]:
    x = random((3,), 1)
    yield x, torch.nextafter(x.detach(), x.detach() + 1)


def _passed(args: tuple[Any, ...], grads: tuple[Any, ...]) -> tuple[Any, ...]:
    return (grads[0],)


unchecked_assign = Subject("torchdiffeq._impl.rk_common:_UncheckedAssign", inputs=_SLOT)
stitch_gradient = Subject("torchdiffeq._impl.misc:_StitchGradient", inputs=_next, gradient="declared", formula=_passed)
