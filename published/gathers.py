"""Ways to hold gathers of other layouts against a documented one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

from conformance.kit.specs import Launch, apply


def bound(prepare: Callable[[torch.Tensor], tuple[Any, ...]]) -> Callable[..., Any]:
    """Call a class or a function with what ``prepare`` makes of the tensor."""

    def call(function: Any, x: torch.Tensor) -> Any:
        return apply(function, *prepare(x))

    return call


def as_tuple(*more: Any) -> Callable[..., Any]:
    """A gather that joins along dimension 0 and takes ``more`` arguments, as one that returns a tuple."""

    def call(function: Any, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        # Copies, so that what the entries share is not held against the gather.
        return tuple(part[0].clone() for part in apply(function, x[None], *more).split(1))

    return call


def with_launch(function: Any, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """The same for a gather whose second argument holds the rank and the world size."""
    return as_tuple(Launch(dist.get_world_size(), dist.get_rank()))(function, x)  # type: ignore[no-any-return]


def joined(function: Any, x: torch.Tensor, args: Any) -> torch.Tensor:
    """A gather that returns a tuple, as towhee's, which joins it; with one rank there may be no process group."""
    return x.clone() if args.world_size == 1 else torch.cat(apply(function, x))


def without_args(function: Any, x: torch.Tensor, args: Any) -> Any:
    """A gather that has no second argument."""
    return apply(function, x)


def of_variable_size(function: Any, x: torch.Tensor, args: Any) -> torch.Tensor:
    """A gather that is told a dimension and may be told sizes; with one rank there may be no process group."""
    return x.clone() if args.world_size == 1 else apply(function, x, 0, None)[0]
