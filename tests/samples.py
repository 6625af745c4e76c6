"""Inputs for planted bugs and correct implementations."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch

Sample = tuple[object, ...]


def of_shapes(*shapes: tuple[int, ...]) -> Callable[[], Iterator[tuple[torch.Tensor, ...]]]:
    """Inputs of one sample: a random tensor in double precision for each shape, all of which require grad."""

    def inputs() -> Iterator[tuple[torch.Tensor, ...]]:
        yield tuple(torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in shapes)

    return inputs


def given(*samples: Sample) -> Callable[[], Iterator[Sample]]:
    """Inputs that are these samples each time."""
    return lambda: iter(samples)
