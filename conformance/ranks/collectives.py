"""Notes the collectives that a rank issues, in order, so that one that hangs and ranks that disagree can be named."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

from conformance.core.outcomes import AMONG
from conformance.ranks.call_log import Log

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
        if torch.compiler.is_compiling():  # traced, not started; the compiler would stop at the note
            return function(*args, **options)
        log.note(f"{name}({', '.join(_described(args[skip:]))}){_among(args[0]) if skip else ''}")
        return function(*args, **options)

    return noted


def _among(group: Any) -> str:
    """The ranks of a group that is not the whole world."""
    if not dist.is_initialized() or group.size() == dist.get_world_size():
        return ""
    return AMONG + ",".join(map(str, dist.get_process_group_ranks(group)))


def _described(values: Any) -> list[str]:
    texts = []
    for value in values:
        if isinstance(value, torch.Tensor):
            texts.append(f"{'x'.join(map(str, value.shape)) or '0-d'} {str(value.dtype).removeprefix('torch.')}")
        elif isinstance(value, list | tuple):
            texts.append(f"[{', '.join(_described(value[:8]))}]")
    return texts
