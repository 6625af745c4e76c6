"""Find tensors that outlive a call."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch.multiprocessing.reductions import StorageWeakRef

from conformance.core.garbage import collector_paused
from conformance.kit.modes import AllocationMode
from conformance.kit.observation.ctx_tensors import named_tensors_in
from conformance.kit.tensors import is_strided


class _Allocations(AllocationMode):
    """Records every storage that an operation makes, by a weak reference and a name."""

    def __init__(self) -> None:
        super().__init__()
        self.storages: dict[int, tuple[StorageWeakRef, str]] = {}

    def allocated(self, tensor: torch.Tensor, origin: str) -> None:
        """Remember a tensor's storage; nothing here keeps it alive."""
        reference = StorageWeakRef(tensor.untyped_storage())
        shape = "x".join(map(str, tensor.shape)) or "0-d"
        self.storages.setdefault(reference.cdata, (reference, f"{shape} {tensor.dtype} made by {origin}"))

    def alive(self, owners: Sequence[Any]) -> list[str]:
        """The names of storages that still exist, and are not in one of the owners."""
        alive = {key: name for key, (reference, name) in self.storages.items() if not reference.expired()}
        if not alive:
            return []
        owned = (tensor for owner in owners for _, tensor in named_tensors_in(owner) if is_strided(tensor))
        keys = {StorageWeakRef(tensor.untyped_storage()).cdata for tensor in owned}
        return [name for key, name in alive.items() if key not in keys]


def kept_alive(action: Callable[[], None], owners: Sequence[Any]) -> tuple[list[str], str]:
    """Run an action whose tensors should all be freed afterwards; name those that are not, and guess why.

    It runs once before: what a Function makes once and for all may stay. What objects of the caller hold, the
    ``owners``, may stay: they may want what was put there.
    """
    with _Allocations():  # PyTorch itself leaves a cycle behind the first time a mode meets an operation
        action()
    with collector_paused():
        with _Allocations() as made:
            action()
        left = _settled(made, owners)
    if not left:
        return [], ""
    gc.collect(0)  # all of it is young, since nothing was collected meanwhile
    if made.alive(owners):
        return left, "a global, a class attribute or a cache holds it"
    return left, (
        "a reference cycle: a tensor on ctx that leads back to ctx (save_for_backward makes no cycle), "
        "or an object on ctx that refers to itself"
    )


def _settled(made: _Allocations, owners: Sequence[Any]) -> list[str]:
    """Return what is left after a while: a process group releases its buffers late."""
    deadline = time.monotonic() + (0.5 if dist.is_available() and dist.is_initialized() else 0.02)
    while (left := made.alive(owners)) and time.monotonic() < deadline:
        time.sleep(0.005)
    return left
