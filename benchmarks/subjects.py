"""Subjects whose whole run is timed: a Function and a collective, as small as they come."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
import torch.distributed as dist

from conformance import GROUP, Subject


class Square(torch.autograd.Function):
    """The square of every element."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        """Square."""
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        """Twice the input."""
        (x,) = ctx.saved_tensors
        return 2 * x * grad


class Reduce(torch.autograd.Function):
    """The sum over a group, whose gradient is the incoming one."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, group: Any) -> torch.Tensor:
        """Add up."""
        total = x.clone(memory_format=torch.contiguous_format)
        dist.all_reduce(total, group=group)
        return total

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None]:
        """Pass it on."""
        return grad, None


def _one() -> Iterator[tuple[Any, ...]]:
    yield (torch.linspace(-1, 1, 6, dtype=torch.float64),)


def _grouped() -> Iterator[tuple[Any, ...]]:
    yield torch.linspace(-1, 1, 6, dtype=torch.float64), GROUP


function = Subject(Square, inputs=_one)
collective = Subject(Reduce, spec="Collective", types="P -> I", inputs=_grouped, ranks=(1, 2, 3))


def gather_samples() -> Iterator[tuple[torch.Tensor]]:
    """What a gather is judged with, by the contract of collectives."""
    yield (torch.randn(2, 3, dtype=torch.float64, requires_grad=True),)
