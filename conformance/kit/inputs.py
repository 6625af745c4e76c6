"""Sample inputs for most Functions, in one line."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

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
