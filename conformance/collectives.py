"""The collectives a rank called, in order: so that ranks that disagree, and a call that hangs, can be named."""

from __future__ import annotations

import contextlib
import functools
import importlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch.utils._python_dispatch import TorchDispatchMode

from conformance.call_log import Log

#: Methods of a process group that move data; c10d's Python functions and the autograd ones all go through them.
METHODS = (
    "allgather", "allgather_into_tensor_coalesced", "allgather_coalesced", "_allgather_base", "allreduce",
    "allreduce_coalesced", "alltoall", "alltoall_base", "barrier", "broadcast", "gather", "recv", "recv_anysource",
    "reduce", "reduce_scatter", "_reduce_scatter_base", "reduce_scatter_tensor_coalesced", "scatter", "send",
    "all_gather_single", "all_to_all_single", "reduce_scatter_single",
)  # fmt: skip
FUNCTIONAL = (
    "all_gather_tensor", "all_gather_tensor_autograd", "all_reduce", "all_to_all_single",
    "all_to_all_single_autograd", "broadcast", "reduce_scatter_tensor", "reduce_scatter_tensor_autograd",
)  # fmt: skip
#: Operators of these namespaces move data between ranks, those named here aside.
NAMESPACES = ("c10d", "_c10d_functional", "_c10d_functional_autograd")
LOCAL = ("wait_tensor", "_wrap_tensor_autograd")


def record(log: Log) -> None:
    """Have every collective of this process noted in ``log``."""
    group = dist.ProcessGroup
    for name in METHODS:
        if hasattr(group, name):
            setattr(group, name, _noted(getattr(group, name), name.strip("_"), log, skip=1))
    functional = importlib.import_module("torch.distributed._functional_collectives")
    for name in FUNCTIONAL:
        if hasattr(functional, name):
            setattr(functional, name, _noted(getattr(functional, name), name, log, skip=0))


@contextlib.contextmanager
def counted() -> Iterator[list[str]]:
    """Collect the names of the collectives started inside the block by this thread, backward passes included.

    It needs neither recording nor a process group, and sees every collective, since each ends in an operator.

    >>> with counted() as calls:
    ...     torch.ones(2).sum()
    tensor(2.)
    >>> calls
    []
    """
    mode = _Counting()
    with mode:
        yield mode.calls


class _Counting(TorchDispatchMode):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.calls: list[str] = []

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # Otherwise the first use imports the compiler: a second of time, and marks left all over the process.
        return False

    def __torch_dispatch__(self, operator: Any, types: Any, args: Any = (), options: Any = None) -> Any:
        name = operator.overloadpacket.__name__
        if operator.namespace in NAMESPACES and name not in LOCAL:
            self.calls.append(name.strip("_"))
        return operator(*args, **(options or {}))


def _noted(function: Callable[..., Any], name: str, log: Log, skip: int) -> Callable[..., Any]:
    @functools.wraps(function)
    def noted(*args: Any, **options: Any) -> Any:
        log.note(f"{name}({', '.join(_described(args[skip:]))})")
        return function(*args, **options)

    return noted


def _described(values: Any) -> list[str]:
    texts = []
    for value in values:
        if isinstance(value, torch.Tensor):
            texts.append(f"{'x'.join(map(str, value.shape)) or '0-d'} {str(value.dtype).removeprefix('torch.')}")
        elif isinstance(value, list | tuple):
            texts.append(f"[{', '.join(_described(value[:8]))}]")
    return texts
