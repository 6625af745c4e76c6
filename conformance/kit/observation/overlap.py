"""Find what changes while collectives are running: calls without overlap, and tensors that change before wait()."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import torch
import torch.distributed as dist
from torch.utils import _pytree as pytree

from conformance.core.disagreement import METHODS
from conformance.kit.calls import SampleCall
from conformance.kit.observation.collectives import EndedAtOnceMode
from conformance.kit.observation.looks import Look
from conformance.kit.observation.witness import Call
from conformance.kit.observation.witnessing import witnessing
from conformance.kit.world import World


def calls_without_overlap(
    looks: Sequence[Look], action: Callable[[SampleCall], object], world: World
) -> Iterator[Call]:
    """Observe each sample's calls if every collective ends before the call that starts it returns.

    Args:
        looks: what was seen before, on every rank.
        action: what to do with each sample.
        world: the ranks; each of them asks.
    """
    functions = {call.function for look in looks for call in look.witness.calls}
    for look in looks:
        with witnessing(*functions) as witness, EndedAtOnceMode():
            world.try_call(action, look.sample)
        yield from witness.calls


@contextmanager
def changed_under_way() -> Iterator[list[str]]:
    """Collect the collectives, by name, that wait() finds with other numbers in a tensor than they started with.

    A tensor that is a part of a larger one counts changes of the rest too, and is left out.
    """
    found: list[str] = []
    running: dict[int, tuple[Any, str, dict[torch.Tensor, int]]] = {}
    wait = dist.Work.wait

    def waiting(work: Any, *args: Any, **options: Any) -> Any:
        _, name, held = running.pop(id(work), (None, "", {}))
        found.extend([name] if any(tensor._version != version for tensor, version in held.items()) else [])
        return wait(work, *args, **options)

    def noted(function: Callable[..., Any], name: str) -> Callable[..., Any]:
        @functools.wraps(function)
        def started(*args: Any, **options: Any) -> Any:
            work = function(*args, **options)
            if isinstance(work, dist.Work):
                given = filter(_is_whole, pytree.tree_leaves((args, options)))
                mine = {tensor: tensor._version for tensor in given}
                for _, _, held in running.values():  # what a later collective does to it is in order
                    held.update({tensor: version for tensor, version in mine.items() if tensor in held})
                running[id(work)] = (work, name.strip("_"), mine)
            return work

        return started

    with ExitStack() as undo:
        undo.enter_context(patch.object(dist.Work, "wait", waiting))
        for name in METHODS:
            if hasattr(dist.ProcessGroup, name):
                undo.enter_context(patch.object(dist.ProcessGroup, name, noted(getattr(dist.ProcessGroup, name), name)))
        yield found


def _is_whole(value: object) -> bool:
    """Whether a value is a tensor that shares its memory with nothing."""
    if type(value) is not torch.Tensor or value.layout is not torch.strided or value.is_inference():
        return False
    return value.untyped_storage().nbytes() == value.numel() * value.element_size()
