"""deel-torchlip: a square root whose gradient is bounded at zero."""

from __future__ import annotations

from conformance.kit.declared import sloped
from conformance.kit.specs import random
from conformance.kit.subject import Subject
from published.packages import bare, enter

bare(enter("deel-torchlip"), "deel.torchlip.utils")


_POSITIVE = [(random((4, 3), 1).detach().abs().requires_grad_(), 0.01)]

square_root = Subject(
    "deel.torchlip.utils.sqrt_eps:SqrtEpsGrad",
    inputs=_POSITIVE,
    formula=sloped(lambda x, eps: 1 / (2 * (x.sqrt() + eps))),
)
