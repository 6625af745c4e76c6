"""Samples for published collectives, and ways to give one its process group."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

from conformance.kit.specs import apply, random
from conformance.kit.subject import Subject

#: A matrix whose rows can be dealt out to one, two or three ranks, and one whose columns can.
ROWS, COLUMNS = random((6, 2), 600), random((2, 6), 601)
#: Attention as Ulysses shards it: batch, sequence, heads and size of a head.
HEADS = random((1, 6, 6, 1), 602)


def collective(target: str, types: str, *args: Any, call: Callable[..., Any] | None = None) -> Subject:
    """A Function that communicates, the types that its documentation claims, and the arguments to call it with."""
    return Subject(target, spec="Collective", types=types, inputs=[args], call=call)


def first_of(group: Any) -> int:
    """The first rank of a group as the world counts, which is what torch.distributed wants for a source."""
    return dist.get_global_rank(group, 0)


def parts(x: torch.Tensor, group: Any) -> list[torch.Tensor]:
    """The rows of a tensor, a part for each rank of a group."""
    return list(x.chunk(dist.get_world_size(group)))


def received(x: torch.Tensor, group: Any) -> list[torch.Tensor]:
    """Room for one part from each rank."""
    return [part.new_empty(part.shape) for part in parts(x, group)]


def in_global(place: str, name: str) -> Callable[..., Any]:
    """Call a Function that takes the group of all ranks from a global of its package."""

    def call(function: Any, *args: Any) -> Any:
        vars(importlib.import_module(place))[name] = dist.group.WORLD
        return apply(function, *args)

    return call


def first_result(function: Any, *args: Any) -> torch.Tensor:
    """Call a Function that returns a handle, or sizes, beside the tensor."""
    return apply(function, *args)[0]  # type: ignore[no-any-return]
