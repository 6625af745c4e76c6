"""Ways to call gathers whose arguments are not the documented ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

from conformance.kit.specs import apply
from spec_impl.towhee.spec import Launch


def bound(prepare: Callable[[torch.Tensor], tuple[Any, ...]]) -> Callable[..., Any]:
    """Call a class or a function with what ``prepare`` makes of the tensor."""

    def call(function: Any, x: torch.Tensor) -> Any:
        return apply(function, *prepare(x))

    return call


def with_launch(function: Any, x: torch.Tensor) -> Any:
    """A gather whose second argument holds the rank and the world size."""
    return apply(function, x, Launch(dist.get_world_size(), dist.get_rank()))


def without_args(function: Any, x: torch.Tensor, args: Any) -> Any:
    """A gather that has no second argument."""
    return apply(function, x)


def of_variable_size(function: Any, x: torch.Tensor, args: Any) -> torch.Tensor:
    """A gather with a dimension and optional sizes; with one rank there may be no process group."""
    return x.clone() if args.world_size == 1 else apply(function, x, 0, None)[0]
