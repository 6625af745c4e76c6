"""Find what changes while collectives are running: calls without overlap, and tensors that change before wait()."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import torch
import torch.distributed as dist

from conformance.core.disagreement import METHODS
from conformance.kit.calls import SampleCall
from conformance.kit.modes import OperationMode, carry_out, written_to
from conformance.kit.observation.collectives import NAMESPACES, EndedAtOnceMode
from conformance.kit.observation.looks import WitnessedCall
from conformance.kit.observation.witness import ObservedCall, witnessing
from conformance.kit.tensors import overlap, tensor_leaves
from conformance.kit.world import World


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
