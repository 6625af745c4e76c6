"""Which collectives a rank called, in order: so that ranks that disagree, and the call a rank hangs in, can be named."""

from __future__ import annotations

import contextlib
import functools
import importlib
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

#: Methods of a process group that move data; c10d's Python functions and the autograd ones all go through them.
METHODS = (
    "allgather", "allgather_into_tensor_coalesced", "allgather_coalesced", "_allgather_base", "allreduce",
    "allreduce_coalesced", "alltoall", "alltoall_base", "barrier", "broadcast", "gather", "recv", "recv_anysource",
    "reduce", "reduce_scatter", "_reduce_scatter_base", "reduce_scatter_tensor_coalesced", "scatter", "send",
)  # fmt: skip
FUNCTIONAL = (
    "all_gather_tensor", "all_gather_tensor_autograd", "all_reduce", "all_to_all_single",
    "all_to_all_single_autograd", "broadcast", "reduce_scatter_tensor", "reduce_scatter_tensor_autograd",
)  # fmt: skip
KEPT = 256


class Log:
    """Counts collectives and tells the controller of each as it starts."""

    def __init__(self, tell: Callable[[dict[str, Any]], None]) -> None:
        self.tell = tell
        self.count = 0

    def clear(self) -> None:
        """Begin a test."""
        self.count = 0

    def started(self, name: str, values: tuple[Any, ...]) -> None:
        """Note one collective; beyond a number of them only the count goes on."""
        self.count += 1
        if self.count <= KEPT:
            with contextlib.suppress(OSError):
                self.tell({"event": "collective", "text": f"{name}({', '.join(_described(values))})"})


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


def _noted(function: Callable[..., Any], name: str, log: Log, skip: int) -> Callable[..., Any]:
    @functools.wraps(function)
    def noted(*args: Any, **options: Any) -> Any:
        log.started(name, args[skip:])
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
