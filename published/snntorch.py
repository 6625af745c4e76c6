"""snntorch: surrogate gradients for spikes, and a quantizer with a straight-through gradient."""

from __future__ import annotations

from typing import Any

import torch

from conformance.kit.specs import random
from conformance.kit.subject import Subject
from published.packages import bare, enter

bare(enter("snntorch"), "snntorch.functional")


_SLOPED = [(random((4, 3), 1, torch.float32), 5.0)]


def _fast_sigmoid(args: tuple[Any, ...], grads: tuple[Any, ...]) -> tuple[Any, ...]:
    x, slope = args
    return (grads[0] / (1 + slope * x.abs()).square(),)


def _atan(args: tuple[Any, ...], grads: tuple[Any, ...]) -> tuple[Any, ...]:
    x, alpha = args
    return (grads[0] * alpha / 2 / (1 + (torch.pi / 2 * alpha * x).square()),)


def _sigmoid(args: tuple[Any, ...], grads: tuple[Any, ...]) -> tuple[Any, ...]:
    x, slope = args
    return (grads[0] * slope * torch.sigmoid(slope * x) * torch.sigmoid(-slope * x),)


def _leaky(args: tuple[Any, ...], grads: tuple[Any, ...]) -> tuple[Any, ...]:
    x, slope = args
    return (torch.where(x > 0, grads[0], slope * grads[0]),)


def _triangular(args: tuple[Any, ...], grads: tuple[Any, ...]) -> tuple[Any, ...]:
    x, threshold = args
    return (torch.where(x < 0, threshold * grads[0], -threshold * grads[0]),)


def _straight(args: tuple[Any, ...], grads: tuple[Any, ...]) -> tuple[Any, ...]:
    return (grads[0],)


_LEVELS = [(random((4, 3), 1, torch.float32), torch.linspace(-1, 1, 5))]

fast_sigmoid = Subject("snntorch.surrogate:FastSigmoid", inputs=_SLOPED, gradient="declared", formula=_fast_sigmoid)
atan = Subject("snntorch.surrogate:ATan", inputs=_SLOPED, gradient="declared", formula=_atan)
sigmoid = Subject("snntorch.surrogate:Sigmoid", inputs=_SLOPED, gradient="declared", formula=_sigmoid)
leaky_spike = Subject("snntorch.surrogate:LeakySpikeOperator", inputs=_SLOPED, gradient="declared", formula=_leaky)
triangular = Subject("snntorch.surrogate:Triangular", inputs=_SLOPED, gradient="declared", formula=_triangular)
state_quant = Subject("snntorch.functional.quant:StateQuant", inputs=_LEVELS, gradient="declared", formula=_straight)
