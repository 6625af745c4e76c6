"""s3prl: the gradient is scaled; the same class as in fairseq."""

from __future__ import annotations

from typing import Any

from conformance.kit.specs import random
from conformance.kit.subject import Subject
from published.packages import bare, enter

bare(enter("s3prl"), "s3prl.upstream.wavlm")


def _scaled(args: tuple[Any, ...], grads: tuple[Any, ...]) -> tuple[Any, ...]:
    return (grads[0] * args[1],)


_INPUTS = [(random((3, 2), 1), 0.5)]

grad_multiply = Subject(
    "s3prl.upstream.wavlm.modules:GradMultiply", inputs=_INPUTS, gradient="declared", formula=_scaled
)
grad_multiply_as_factor = Subject("s3prl.upstream.wavlm.modules:GradMultiply", spec="GradFactor")
