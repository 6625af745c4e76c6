"""The collectives that start inside a block of a test body, and what changes while they are under way."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import torch
import torch.distributed as dist

from conformance.core.disagreement import METHODS
from conformance.kit.calls import SampleCall
from conformance.kit.modes import NAMESPACES, CollectivesMode, OperationMode, carry_out, written_to
from conformance.kit.observation.looks import WitnessedCall
from conformance.kit.observation.witness import ObservedCall, witnessing
from conformance.kit.tensors import overlap, tensor_leaves
from conformance.kit.world import World


@dataclass(frozen=True)
class Started:
    """A started collective: the name of its operator, and the ranks of its group in the world."""

    name: str
    ranks: tuple[int, ...]


@contextmanager
def counted() -> Iterator[list[str]]:
    """Collect the names of the collectives started inside the block by this thread, backward passes included.

    It needs neither recording nor a process group, and sees every collective, since each ends in an operator.
    """
    calls: list[str] = []
    with CollectivesMode(lambda name, args: calls.append(name)):
        yield calls


@contextmanager
def counted_in_groups() -> Iterator[list[Started]]:
    """Collect the collectives started inside the block as :func:`counted` does, each with the ranks of its group."""
    calls: list[Started] = []
    with CollectivesMode(lambda name, args: calls.append(Started(name, _ranks_among(args)))):
        yield calls


def _ranks_among(args: tuple[Any, ...]) -> tuple[int, ...]:
    """Return the ranks of the process group among the arguments of an operator; all ranks if there is none."""
    groups = {str(group.group_name): group for group in dist.distributed_c10d._world.pg_map}
    for value in args:
        name = dist.ProcessGroup.unbox(value).group_name if _is_group(value) else value
        if isinstance(name, str) and name in groups:
            return tuple(dist.get_process_group_ranks(groups[name]))
    return tuple(dist.get_process_group_ranks(dist.group.WORLD))


def _is_group(value: object) -> bool:
    return isinstance(value, torch.ScriptObject) and "ProcessGroup" in str(value._type())


def unseen_change(action: Callable[[], object]) -> str:
    """Say what changed a tensor without a new version: a collective that ``action`` starts, or an alias."""
    with counted() as started:
        action()
    if started:
        return f"changed by a collective: {', '.join(dict.fromkeys(started))}"
    return "changed through .data, .numpy() or another alias, which autograd does not track"


class EndedAtOnceMode(OperationMode):
    """Waits for every collective before the call that starts it returns: one under way fills its tensors later."""

    def look(self, function: Any, given: tuple[Any, Any], result: Any) -> None:
        """Wait for the work that an operation started."""
        if function.namespace == "c10d":
            for started in result if isinstance(result, tuple | list) else (result,):
                if isinstance(started, torch.ScriptObject) and hasattr(started, "wait"):
                    started.wait()


def calls_without_overlap(
    looks: Sequence[WitnessedCall], action: Callable[[SampleCall], object], world: World
) -> Iterator[ObservedCall]:
    """Observe each sample's calls if every collective ends before the call that starts it returns; each rank asks."""
    functions = {call.function for look in looks for call in look.witness.calls}
    for look in looks:
        with witnessing(*functions) as witness, EndedAtOnceMode():
            world.try_call(action, look.sample)
        yield from witness.calls


@contextmanager
def changed_under_way() -> Iterator[list[str]]:
    """Collect the collectives, by name, whose tensors an operation of this thread writes to before their wait().

    What a collective writes itself does not count: Gloo copies its results from a thread of its own.
    """
    running: dict[int, tuple[Any, str, list[torch.Tensor]]] = {}
    wait = dist.Work.wait

    def waiting(work: Any, *args: Any, **options: Any) -> Any:
        running.pop(id(work), None)
        return wait(work, *args, **options)

    def noted(function: Callable[..., Any], name: str) -> Callable[..., Any]:
        @functools.wraps(function)
        def started(*args: Any, **options: Any) -> Any:
            work = function(*args, **options)
            if isinstance(work, dist.Work):
                running[id(work)] = (work, name.strip("_"), tensor_leaves((args, options)))
            return work

        return started

    with ExitStack() as undo:
        undo.enter_context(patch.object(dist.Work, "wait", waiting))
        for name in METHODS:
            if hasattr(dist.ProcessGroup, name):
                undo.enter_context(patch.object(dist.ProcessGroup, name, noted(getattr(dist.ProcessGroup, name), name)))
        yield undo.enter_context(_Writes(running)).found


class _Writes(OperationMode):
    """Records the collectives under way whose tensors an operation writes to."""

    def __init__(self, running: Mapping[int, tuple[Any, str, list[torch.Tensor]]]) -> None:
        super().__init__()
        self.running = running

    def __torch_dispatch__(self, operator: Any, types: Any, args: Any = (), options: Any = None) -> Any:
        """Run an operation, and look at what it writes to, unless it is a collective."""
        if operator.namespace not in NAMESPACES:
            for written in written_to(operator, args, options or {}):
                self.found += [
                    name for _, name, held in list(self.running.values()) if any(overlap(written, x) for x in held)
                ]
        return carry_out(operator, args, options)
