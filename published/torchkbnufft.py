"""torchkbnufft: interpolation between a grid and points beside it, as sparse matrices, and back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from conformance.kit.specs import random
from conformance.kit.subject import Subject
from published.packages import bare, enter

for part in ("_autograd", "_nufft"):
    bare(enter("torchkbnufft"), f"torchkbnufft.{part}")


def _complex(shape: tuple[int, ...], seed: int) -> torch.Tensor:
    return torch.complex(random(shape, seed).detach(), random(shape, seed + 1).detach()).requires_grad_()


def _matrices() -> tuple[torch.Tensor, torch.Tensor]:
    dense = random((5, 12), 3).detach() * (random((5, 12), 4).detach() > 0)
    return dense.to_sparse(), (0.5 * dense.roll(1, 1)).to_sparse()


def _images() -> Iterator[tuple[Any, ...]]:
    yield _complex((2, 1, 3, 4), 1), _matrices()


def _points() -> Iterator[tuple[Any, ...]]:
    yield _complex((2, 1, 5), 1), _matrices(), torch.tensor([3, 4])


forth = Subject("torchkbnufft._autograd.interp:KbSpmatInterpForward", inputs=_images)
back = Subject("torchkbnufft._autograd.interp:KbSpmatInterpAdjoint", inputs=_points)
