"""torchao: a straight-through rounding, and learned step sizes for few bits."""

from __future__ import annotations

import math
from typing import Any

import torch

from conformance.kit.specs import random
from conformance.kit.subject import Subject
from published.packages import bare, enter

_folder = enter("torchao")
for _parent in ("torchao.prototype.quantization.module_swap", "torchao.prototype.paretoq.models"):
    bare(_folder, _parent)


_ONE = [(random((4, 3), 1),)]


def _straight(args: tuple[Any, ...], grads: tuple[Any, ...]) -> tuple[Any, ...]:
    return (grads[0],)


_STEPS = [(random((4, 6), 1, torch.float32), torch.full((4, 1), 0.4).requires_grad_(), 3, False)]


def _step_size(args: tuple[Any, ...], grads: tuple[Any, ...]) -> tuple[Any, ...]:
    """Learned step size quantization: clipped straight-through for the input, the rounding error for the step."""
    x, alpha, bits, _ = args
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    ratio = x / alpha
    inside = (ratio >= low) & (ratio <= high)
    error = torch.where(inside, ratio.round() - ratio, ratio.clamp(low, high))
    of_alpha = (error * grads[0]).sum(-1, keepdim=True) / math.sqrt(x.numel() * high)
    return inside * grads[0], of_alpha


round_ste = Subject(
    "torchao.prototype.quantization.module_swap.quantizers:RoundStraightThrough",
    inputs=_ONE,
    gradient="declared",
    formula=_straight,
)
learned_step_size = Subject(
    "torchao.prototype.paretoq.models.utils_quant:LsqBinaryTernaryExtension",
    inputs=_STEPS,
    gradient="declared",
    formula=_step_size,
)
