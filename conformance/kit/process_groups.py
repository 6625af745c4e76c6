"""Process groups: what stands for one among a subject's arguments, the groups of a world, and work in one of them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, TypeVar

import torch.distributed as dist
from torch.utils import _pytree as pytree

from conformance.kit.typed_values import Ranks
from conformance.kit.world import World

__all__ = ["GROUP", "all_ranks", "world_group"]

_Found = TypeVar("_Found")


class _Group:
    """The class of :data:`GROUP`, its only instance."""

    def __repr__(self) -> str:
        return "GROUP"

    def __reduce__(self) -> str:
        return "GROUP"  # by name, so that it is the same object on every rank


#: Stands for the process group under test, among a subject's sample arguments.
GROUP: Final = _Group()


def placed(args: tuple[Any, ...], group: Any) -> tuple[Any, ...]:
    """Replace :data:`GROUP` among the arguments by a process group.

    >>> placed((1.5, [GROUP]), "the group")
    (1.5, ['the group'])
    """
    return tuple(pytree.tree_map(lambda leaf: group if leaf is GROUP else leaf, args))


def world_group() -> Any:
    """Return the group of all ranks, or None if there is none.

    >>> world_group() is None
    True
    """
    return dist.group.WORLD if dist.is_initialized() else None


def group_of(world: World, members: Sequence[int]) -> Any:
    """The group of some ranks of the world, in their order. Every rank asks for it, and it is made once."""
    making = partial(dist.new_group, sort_ranks=False) if orders_groups() else dist.new_group
    return world.once(("group", tuple(members)), lambda: making(list(members)))


def orders_groups() -> bool:
    """Whether ranks of a group can stand in another order than in the world, as PyTorch lets them from 2.12 on."""
    return "sort_ranks" in inspect.signature(dist.new_group).parameters


def all_ranks(world: World) -> Ranks:
    """Return the ranks of the world.

    Args:
        world: the world.

    >>> all_ranks(World()).size
    1
    """
    return Ranks(world.rank, world.size, world.exchange, world.made_once)


def among(world: World, members: Sequence[int], work: Callable[[Ranks, Any], _Found]) -> _Found | None:
    """Run work in a group of some ranks, while the others wait; every rank calls this.

    Several groups may work at the same time. Ranks exchange values through the controller, in rounds, until no rank has
    one to send.

    Args:
        world: the world that the ranks are of.
        members: the ranks of this rank's group; or of another one, whose end it waits for.
        work: what they do, given the ranks of the group and the group.

    Returns:
        the result of the work; None on a rank that is not a member.
    """
    group = group_of(world, members)

    def exchange(value: Any) -> list[Any]:
        told = world.exchange([False, value])
        return [told[member][1] for member in members]

    found = None
    if world.rank in members:
        found = work(Ranks(members.index(world.rank), len(members), exchange), group)
    while not all(done for done, _ in world.exchange([True, None])):
        pass
    return found
