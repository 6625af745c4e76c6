"""Record the collectives that a rank issues, in order, to name one that hangs and ranks that disagree."""

from __future__ import annotations

import contextlib
import functools
import importlib
from collections.abc import Callable, Iterator
from typing import Any, Protocol
from unittest.mock import patch

import torch
import torch.distributed as dist

from conformance.core.disagreement import METHODS, public_name
from conformance.core.outcomes import AMONG

FUNCTIONAL = (
    "all_gather_tensor", "all_gather_tensor_autograd", "all_reduce", "all_to_all_single",
    "all_to_all_single_autograd", "broadcast", "reduce_scatter_tensor", "reduce_scatter_tensor_autograd",
)  # fmt: skip


class Notes(Protocol):
    """A log of calls."""

    def note(self, line: Callable[[], str]) -> None:
        """Record one collective as it starts; its line need not be made once enough are kept."""


@contextlib.contextmanager
def recorded(log: Notes) -> Iterator[None]:
    """Record every collective of this process in ``log`` while the block runs."""
    functional = importlib.import_module("torch.distributed._functional_collectives")
    with contextlib.ExitStack() as undo:
        for owner, names, skip in ((dist.ProcessGroup, METHODS, 1), (functional, FUNCTIONAL, 0)):
            for name in names:
                if hasattr(owner, name):
                    noting = _noted(getattr(owner, name), public_name(name), log, skip)
                    undo.enter_context(patch.object(owner, name, noting))
        yield


def _noted(function: Callable[..., Any], name: str, log: Notes, skip: int) -> Callable[..., Any]:
    @functools.wraps(function)
    def noted(*args: Any, **options: Any) -> Any:
        if torch.compiler.is_compiling():  # traced, not started; recording would break the compiler's graph
            return function(*args, **options)
        log.note(lambda: f"{name}({', '.join(described(args[skip:]))}){_among(args[0]) if skip else ''}")
        return function(*args, **options)

    return noted


def _among(group: Any) -> str:
    """Return the ranks of a group that is not the whole world."""
    if group is dist.group.WORLD or not dist.is_initialized() or group.size() == dist.get_world_size():
        return ""
    return AMONG + ",".join(map(str, dist.get_process_group_ranks(group)))


def described(values: Any) -> list[str]:
    """Describe the tensors among the arguments of a collective, for a message."""
    texts = []
    for value in values:
        if isinstance(value, torch.Tensor):
            texts.append(_tensor_of(value.shape, value.dtype))
        elif isinstance(value, list | tuple):
            texts.append(f"[{', '.join(described(value[:8]))}]")
    return texts


@functools.lru_cache(maxsize=256)
def _tensor_of(shape: torch.Size, dtype: torch.dtype) -> str:
    return f"{'x'.join(map(str, shape)) or '0-d'} {str(dtype).removeprefix('torch.')}"
