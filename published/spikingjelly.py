"""SpikingJelly: surrogate gradients in the separate form, straight-through quantizers, a replaced value."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch

from conformance.kit.specs import random
from conformance.kit.subject import Subject
from published.packages import bare, enter

bare(enter("spikingjelly"), "spikingjelly.activation_based.layer")


def _alpha() -> Iterator[tuple[Any, ...]]:
    yield random((4, 3), 1), 2.0


def _two() -> Iterator[tuple[Any, ...]]:
    yield random((4, 3), 1), random((4, 3), 2)


def _bounds() -> Iterator[tuple[Any, ...]]:
    yield random((4, 3), 1), -0.5, 0.75


def _one() -> Iterator[tuple[Any, ...]]:
    yield (random((4, 3), 1),)


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


atan = Subject("spikingjelly.activation_based.surrogate:atan", inputs=_alpha, gradient="declared", formula=_atan)
sigmoid = Subject(
    "spikingjelly.activation_based.surrogate:sigmoid", inputs=_alpha, gradient="declared", formula=_sigmoid
)
piecewise_quadratic = Subject(
    "spikingjelly.activation_based.surrogate:piecewise_quadratic",
    inputs=_alpha,
    gradient="declared",
    formula=_quadratic,
)
round_ste = Subject(
    "spikingjelly.activation_based.quantize:RoundATGF", inputs=_one, gradient="declared", formula=_straight
)
clamp = Subject("spikingjelly.activation_based.quantize:ClampATGF", inputs=_bounds)
replace = Subject(
    "spikingjelly.activation_based.layer.online_learning:ReplaceforGrad",
    inputs=_two,
    gradient="declared",
    formula=_straight,
)
