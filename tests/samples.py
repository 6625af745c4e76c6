"""Inputs for planted bugs and correct implementations."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch

Sample = tuple[object, ...]


def of_shapes(*shapes: tuple[int, ...], others: Sample = ()) -> Callable[[], Iterator[Sample]]:
    """Inputs of one sample: random tensors in double precision, all of which require grad, and then other arguments."""

    def inputs() -> Iterator[Sample]:
        yield *(torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in shapes), *others

    return inputs


def given(*samples: Sample) -> Callable[[], Iterator[Sample]]:
    """Inputs that are these samples each time."""
    return lambda: iter(samples)
