"""Sample inputs for most Functions, in one line; and for those of a tensor and a process group."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

from conformance.kit.process_groups import GROUP
from conformance.kit.specs import random


def drawn(*arguments: Any, dtype: torch.dtype = torch.float64) -> Callable[[], Iterator[tuple[Any, ...]]]:
    """Make one sample: a tensor that requires grad for every shape; other arguments are unchanged.

    Args:
        arguments: of the call; a tuple is the shape of a tensor, and the tensors all differ.
        dtype: of the tensors that are drawn.

    >>> ((x, weight, slope),) = drawn((4, 3), (3,), 2.0)()
    >>> x.shape, weight.shape, slope
    (torch.Size([4, 3]), torch.Size([3]), 2.0)
    """

    def inputs() -> Iterator[tuple[Any, ...]]:
        yield tuple(
            random(given, seed, dtype) if isinstance(given, tuple) else given
            for seed, given in enumerate(arguments, start=1)
        )

    return inputs


def tensor_and_group() -> Iterator[tuple[Any, ...]]:
    """A matrix whose rows can be divided among 1, 2, 3, 4 or 6 ranks, and the group."""
    yield random((12, 2), 600), GROUP


def source_and_group() -> Iterator[tuple[Any, ...]]:
    """A matrix, the source or target rank, and the group."""
    yield random((3, 2), 610), 0, GROUP
