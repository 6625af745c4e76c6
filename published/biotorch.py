"""BioTorch: feedback alignment, whose backward has weights of its own."""

from __future__ import annotations

from typing import Any

from conformance.kit.specs import random
from conformance.kit.subject import Subject
from published.packages import bare, enter

bare(enter("biotorch"), "biotorch.autograd")


_LINEAR = [(random((4, 3), 1), random((2, 3), 2), random((2, 3), 3).detach(), random((2,), 4), None)]
_DIRECT = [(random((4, 3), 1), random((2, 3), 2), random((2,), 4))]


def _aligned(args: tuple[Any, ...], grads: tuple[Any, ...]) -> tuple[Any, ...]:
    return grads[0] @ args[2], grads[0].mT @ args[0], None, grads[0].sum(0), None


feedback_linear = Subject(
    "biotorch.autograd.fa.linear:LinearGrad", inputs=_LINEAR, gradient="declared", formula=_aligned
)
direct_linear = Subject("biotorch.autograd.dfa.linear:LinearGrad", inputs=_DIRECT)
