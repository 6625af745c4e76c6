"""Brevitas: straight-through estimators, one of them in place."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from conformance.kit.specs import random
from conformance.kit.subject import Subject
from published.packages import enter

enter("brevitas")


_ONE = [(random((4, 3), 1),)]


def _bounds() -> Iterator[tuple[Any, ...]]:
    low, high = (torch.tensor(bound, dtype=torch.float64) for bound in (-0.5, 0.75))
    yield random((4, 3), 1), low, high


def _straight(args: tuple[Any, ...], grads: tuple[Any, ...]) -> tuple[Any, ...]:
    return (grads[0],)


round_ste = Subject("brevitas.ops.autograd_ste_ops:RoundSteFn", inputs=_ONE, gradient="declared", formula=_straight)
binary_sign_ste = Subject(
    "brevitas.ops.autograd_ste_ops:BinarySignSteFn", inputs=_ONE, gradient="declared", formula=_straight
)
tensor_clamp_ste = Subject(
    "brevitas.ops.autograd_ste_ops:TensorClampSteFn", inputs=_bounds, gradient="declared", formula=_straight
)
tensor_clamp_ste_ = Subject(
    "brevitas.ops.autograd_ste_ops:InplaceTensorClampSteFn",
    inputs=_bounds,
    gradient="declared",
    formula=_straight,
)
abs_binary_sign = Subject("brevitas.ops.autograd_ste_ops:AbsBinarySignGradFn", inputs=_ONE)
