"""Transformers: the integer arithmetic of I-BERT, with straight-through gradients."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from conformance.kit.specs import random
from conformance.kit.subject import Subject
from published.packages import absent, bare, enter

bare(enter("transformers"), "transformers.models.ibert")
absent("transformers.utils", logging=type("logging", (), {"get_logger": staticmethod(lambda name: None)}))


_QUANTIZED = [(random((4, 3), 1), 8, False, torch.linspace(0.01, 0.04, 4, dtype=torch.float64))]


def _rescaled() -> Iterator[tuple[Any, ...]]:
    own, other, result = (torch.tensor([scale], dtype=torch.float64) for scale in (0.02, 0.03, 0.05))
    yield random((2, 4, 3), 1), own, 8, result
    yield random((2, 4, 3), 1), own, 8, result, random((2, 4, 3), 2), other


_ONE = [(random((4, 3), 1),)]


def _straight(args: tuple[Any, ...], grads: tuple[Any, ...]) -> tuple[Any, ...]:
    return (grads[0],)


def _over_scale(args: tuple[Any, ...], grads: tuple[Any, ...]) -> tuple[Any, ...]:
    return grads[0] / args[3].view(-1, 1), None, None, None


def _over_result_scale(args: tuple[Any, ...], grads: tuple[Any, ...]) -> tuple[Any, ...]:
    """Of the tensor, and of the one that is added to it."""
    share = grads[0] / args[3]
    return share, None, None, None, *([share, None] if len(args) > 4 else [])


symmetric_quant = Subject(
    "transformers.models.ibert.quant_modules:SymmetricQuantFunction",
    inputs=_QUANTIZED,
    gradient="declared",
    formula=_over_scale,
)
floor_ste = Subject(
    "transformers.models.ibert.quant_modules:floor_ste", inputs=_ONE, gradient="declared", formula=_straight
)
round_ste = Subject(
    "transformers.models.ibert.quant_modules:round_ste", inputs=_ONE, gradient="declared", formula=_straight
)
fixed_point_mul = Subject(
    "transformers.models.ibert.quant_modules:FixedPointMul",
    inputs=_rescaled,
    gradient="declared",
    formula=_over_result_scale,
)
