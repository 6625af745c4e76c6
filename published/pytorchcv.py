"""pytorchcv: pooled covariances and their square roots, and gradients that are drawn at random."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from conformance.kit.inputs import drawn
from conformance.kit.specs import random
from conformance.kit.subject import Subject
from published.packages import bare, enter

bare(enter("pytorchcv"), "pytorchcv.models")


def _positive() -> Iterator[tuple[Any, ...]]:
    root = random((2, 3, 3), 1).detach()
    yield (root @ root.mT + torch.eye(3, dtype=torch.float64)).requires_grad_(), 5


def _drop() -> Iterator[tuple[Any, ...]]:
    yield random((4, 2, 3, 3), 1), *(torch.tensor(number, dtype=torch.float64) for number in (1.0, 0.4))


def _shake() -> Iterator[tuple[Any, ...]]:
    share = torch.rand(4, 1, 1, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    yield random((4, 2, 3, 3), 1), random((4, 2, 3, 3), 2), share


def _drawn_for(grad: torch.Tensor) -> torch.Tensor:
    return torch.rand(grad.shape[0], dtype=grad.dtype, device=grad.device).view(-1, 1, 1, 1)


def _dropped(args: tuple[Any, ...], grads: tuple[Any, ...]) -> tuple[Any, ...]:
    beta = _drawn_for(grads[0])
    return grads[0] * (args[1] + beta - args[1] * beta), None, None


def _shaken(args: tuple[Any, ...], grads: tuple[Any, ...]) -> tuple[Any, ...]:
    beta = _drawn_for(grads[0])
    return beta * grads[0], (1 - beta) * grads[0], None


def _straight(args: tuple[Any, ...], grads: tuple[Any, ...]) -> tuple[Any, ...]:
    return (grads[0],)


covariance = Subject("pytorchcv.models.isqrtcovresnet:CovPool", inputs=drawn((2, 3, 2, 2)))
square_root = Subject("pytorchcv.models.isqrtcovresnet:NewtonSchulzSqrt", inputs=_positive)
upper_triangle = Subject("pytorchcv.models.isqrtcovresnet:Triuvec", inputs=drawn((2, 3, 3)))
shake_drop = Subject(
    "pytorchcv.models.shakedropresnet_cifar:ShakeDrop", inputs=_drop, gradient="declared", formula=_dropped
)
shake_shake = Subject(
    "pytorchcv.models.shakeshakeresnet_cifar:ShakeShake", inputs=_shake, gradient="declared", formula=_shaken
)
binarize = Subject(
    "pytorchcv.models.wrn1bit_cifar:Binarize", inputs=drawn((2, 3, 2, 2)), gradient="declared", formula=_straight
)
