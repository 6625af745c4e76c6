"""The operators of ``c10d``, carried out between simulated ranks while a world is simulated.

They stand below PyTorch's dispatcher, where Gloo's are: whatever looks at collectives from above sees what it always
sees. The process group is PyTorch's own, over a backend that does nothing.
"""

from __future__ import annotations

import contextlib
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d

from conformance.core.worlds import SIMULATED
from conformance.ranks.collectives import recorded
from conformance.ranks.simulated import levels
from conformance.ranks.simulated.collectives import OPERATORS

POINT_TO_POINT = ("send", "recv_", "recv_any_source_")


class Carrier(Protocol):
    """A simulated world, as its ranks' threads find it."""

    def carry_out(self, operator: str, arguments: dict[str, Any], group: dist.ProcessGroup) -> dist.Work:
        """Begin an operator for the rank whose turn it is; its arguments are by name."""

    def note(self, call: str) -> None:
        """Note a collective that it enters."""


class _Here(threading.local):
    """The world that a thread is a rank of; None for every other thread."""

    world: Carrier | None = None

    def note(self, call: str) -> None:
        if self.world is not None:
            self.world.note(call)


here = _Here()
_changing = threading.Lock()
_worlds = 0
_open = contextlib.ExitStack()


@contextlib.contextmanager
def installed() -> Iterator[None]:
    """Have collectives of ranks' threads come to their worlds; those of other threads go where they always go.

    Several worlds may be simulated at a time. The last that ends puts everything back.
    """
    global _worlds
    with _changing:
        if not _worlds:
            if SIMULATED not in dist.Backend.backend_list:
                dist.Backend.register_backend(SIMULATED, _inert, devices=["cpu"])
            _open.callback(_library()._destroy)
            _open.enter_context(_groups_by_thread())
            _open.enter_context(levels.shared())
            _open.enter_context(recorded(here))
        _worlds += 1
    try:
        yield
    finally:
        with _changing:
            _worlds -= 1
            if not _worlds:
                _open.close()


def _library() -> torch.library.Library:
    library = torch.library.Library("c10d", "IMPL")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # kernels are replaced on purpose
        for name in (*OPERATORS, *POINT_TO_POINT):
            if hasattr(torch.ops.c10d, name):
                library.impl(name, _kernel(name), "CPU", with_keyset=True, allow_override=True)
    return library


def _kernel(name: str) -> Callable[..., Any]:
    schema = getattr(torch.ops.c10d, name).default._schema
    names = [argument.name for argument in schema.arguments]
    returns_tensors = len(schema.returns) > 1
    usual = torch.library.get_kernel(f"c10d::{name}", "CPU")

    def kernel(keys: Any, *args: Any) -> Any:
        world = here.world
        if world is None:
            return usual.call_boxed(keys, *args)
        arguments = dict(zip(names, args, strict=False))
        boxed = world.carry_out(name, arguments, dist.ProcessGroup.unbox(arguments["process_group"])).boxed()
        return (args[0], boxed) if returns_tensors else boxed

    return kernel


def _inert(store: Any, rank: int, size: int, timeout: Any) -> Any:
    return _distributed_c10d.FakeProcessGroup._create_internal(rank, size)


@contextlib.contextmanager
def _groups_by_thread() -> Iterator[None]:
    """Have PyTorch look for process groups by name among those of the thread."""
    isolating: Any = _distributed_c10d
    isolating._set_thread_isolation_mode(True)
    try:
        yield
    finally:
        isolating._set_thread_isolation_mode(False)
