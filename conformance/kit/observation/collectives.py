"""The collectives that start inside a block of a test body."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist

from conformance.kit.modes import OperationMode, carry_out

#: Operators of these namespaces move data between ranks, those named here aside.
NAMESPACES = ("c10d", "_c10d_functional", "_c10d_functional_autograd")
LOCAL = ("wait_tensor", "_wrap_tensor_autograd")


@dataclass(frozen=True)
class Started:
    """A started collective: the name of its operator, and the ranks of its group in the world."""

    name: str
    ranks: tuple[int, ...]


@contextlib.contextmanager
def counted() -> Iterator[list[str]]:
    """Collect the names of the collectives started inside the block by this thread, backward passes included.

    It needs neither recording nor a process group, and sees every collective, since each ends in an operator.
    """
    calls: list[str] = []
    with _Counting(lambda name, args: calls.append(name)):
        yield calls


@contextlib.contextmanager
def counted_in_groups() -> Iterator[list[Started]]:
    """Collect the collectives started inside the block as :func:`counted` does, each with the ranks of its group."""
    calls: list[Started] = []
    with _Counting(lambda name, args: calls.append(Started(name, _ranks_among(args)))):
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


class _Counting(OperationMode):
    def __init__(self, note: Callable[[str, tuple[Any, ...]], object]) -> None:
        super().__init__()
        self.note = note

    def __torch_dispatch__(self, operator: Any, types: Any, args: Any = (), options: Any = None) -> Any:
        name = operator.overloadpacket.__name__
        if operator.namespace in NAMESPACES and name not in LOCAL:
            self.note(name.strip("_"), args)
        return carry_out(operator, args, options)
