"""Random numbers: the one place where generators are seeded and put back."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch


def seed(number: int) -> None:
    """Start every generator that a Function may draw from.

    ``torch.manual_seed`` takes a hundred times as long, since it prepares devices that nobody uses.
    """
    torch.default_generator.manual_seed(number)
    if torch.cuda.is_initialized():
        torch.cuda.manual_seed_all(number)
    random.seed(number)
    numpy = _numpy_random()
    if numpy:
        numpy.seed(number)


@contextmanager
def restored() -> Iterator[None]:
    """Put every generator back at the end.

    >>> before = torch.get_rng_state()
    >>> with restored():
    ...     seed(3)
    >>> bool((torch.get_rng_state() == before).all())
    True
    """
    state, python_state, numpy = torch.get_rng_state(), random.getstate(), _numpy_random()
    numpy_state = numpy.get_state() if numpy else None
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []
    try:
        yield
    finally:
        torch.set_rng_state(state)
        random.setstate(python_state)
        if numpy:
            numpy.set_state(numpy_state)
        if cuda:
            torch.cuda.set_rng_state_all(cuda)


@contextmanager
def seeded(number: int) -> Iterator[None]:
    """Start every generator, and put each one back at the end."""
    with restored():
        seed(number)
        yield


def _numpy_random() -> Any:
    return getattr(sys.modules.get("numpy"), "random", None)
