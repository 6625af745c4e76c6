"""How AllGather is called, whose second argument says where it runs; imported only where its tests run."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from conformance.kit import Specification, Subject, World
from conformance.kit.gathers.expected import samples


@dataclass(frozen=True)
class Launch:
    """The second argument of towhee's AllGather."""

    world_size: int
    local_rank: int


def launch(world: World) -> Launch:
    """The second argument of towhee's AllGather."""
    return Launch(world.size, world.rank)


#: Why a clause about args is not applicable to a class behind an adapter.
NOT_HANDED = "the class does not receive args: its adapter drops them"


def gets_args(subject: Subject, world: World) -> bool:
    """Whether the class, or a plain callable in its place, receives args unchanged."""
    if subject.call is None:
        return True
    args = launch(world)
    given: list[Any] = []

    def noting(*values: Any) -> Any:
        given.extend(values)
        raise StopIteration

    class Noting(torch.autograd.Function):
        apply = staticmethod(noting)

    with contextlib.suppress(Exception):  # an adapter may do more than call the class
        subject.call(Noting if subject.function else noting, torch.ones(2, 3, device=world.device), args)
    return any(value is args for value in given)


def inputs(rank: int, size: int) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Yield sample arguments for a rank of a world of this size, each with a name."""
    for label, (tensor,) in samples(rank, size):
        yield label, (tensor, Launch(size, rank))


specification = Specification(inputs, gathers=True, gradient="spec", result="joined")
