"""SpikingJelly: surrogate gradients in the separate form, straight-through quantizers, a replaced value."""

from __future__ import annotations

import math
from typing import Any

import torch

from conformance.kit.specs import random
from conformance.kit.subject import Subject
from published.packages import bare, enter

bare(enter("spikingjelly"), "spikingjelly.activation_based.layer")


_ALPHA = [(random((4, 3), 1), 2.0)]
_TWO = [(random((4, 3), 1), random((4, 3), 2))]
_BOUNDS = [(random((4, 3), 1), -0.5, 0.75)]
_ONE = [(random((4, 3), 1),)]


def _atan(args: tuple[Any, ...], grads: tuple[Any, ...]) -> tuple[Any, ...]:
    x, alpha = args
    return (grads[0] * alpha / 2 / (1 + (math.pi / 2 * alpha * x).square()),)


def _sigmoid(args: tuple[Any, ...], grads: tuple[Any, ...]) -> tuple[Any, ...]:
    x, alpha = args
    return (grads[0] * alpha * torch.sigmoid(alpha * x) * torch.sigmoid(-alpha * x),)


def _quadratic(args: tuple[Any, ...], grads: tuple[Any, ...]) -> tuple[Any, ...]:
    x, alpha = args
    return (grads[0] * (alpha - alpha**2 * x.abs()).clamp(min=0),)


def _straight(args: tuple[Any, ...], grads: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(grads[0] for _ in args)


atan = Subject("spikingjelly.activation_based.surrogate:atan", inputs=_ALPHA, gradient="declared", formula=_atan)
sigmoid = Subject(
    "spikingjelly.activation_based.surrogate:sigmoid", inputs=_ALPHA, gradient="declared", formula=_sigmoid
)
piecewise_quadratic = Subject(
    "spikingjelly.activation_based.surrogate:piecewise_quadratic",
    inputs=_ALPHA,
    gradient="declared",
    formula=_quadratic,
)
round_ste = Subject(
    "spikingjelly.activation_based.quantize:RoundATGF", inputs=_ONE, gradient="declared", formula=_straight
)
clamp = Subject("spikingjelly.activation_based.quantize:ClampATGF", inputs=_BOUNDS)
replace = Subject(
    "spikingjelly.activation_based.layer.online_learning:ReplaceforGrad",
    inputs=_TWO,
    gradient="declared",
    formula=_straight,
)
