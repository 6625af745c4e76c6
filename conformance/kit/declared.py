"""Formulas for gradients that are not derivatives: ``Subject(..., formula=straight)``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import torch

#: ``formula(args, grads)`` gives the expected gradient of every argument; it may stand alone for one argument. One that
#: has a parameter ``forward`` is given the :class:`ForwardCall` whose gradient it is.
Formula = Callable[..., Sequence[torch.Tensor | None] | torch.Tensor]


@dataclass(frozen=True)
class ForwardCall:
    """The results of forward and its random numbers, for a gradient that depends on them."""

    #: The tensors of the result.
    results: tuple[torch.Tensor, ...]
    #: A block in which random numbers are those that forward drew, from the first on.
    random: Callable[[], AbstractContextManager[None]]


def straight(args: tuple[Any, ...], grads: tuple[Any, ...]) -> tuple[Any, ...]:
    """Pass the gradient unchanged to the first argument, as for rounding.

    >>> straight((0.4, 2), (1.5,))
    (1.5,)
    """
    return (grads[0],)


def sloped(slope: Callable[..., Any]) -> Formula:
    """Multiply the gradient of the first argument by a slope, a function of all arguments.

    >>> sloped(lambda x, alpha: alpha)((0.4, 2), (1.5,))
    (3.0,)
    """

    def formula(args: tuple[Any, ...], grads: tuple[Any, ...]) -> tuple[Any, ...]:
        return (grads[0] * slope(*args),)

    return formula
