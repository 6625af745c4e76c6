"""Carry collectives of ``c10d`` between simulated ranks, while a world is simulated.

What does so is registered at the last dispatch key above the kernels of backends, so everything above sees the usual
collectives. The process group is PyTorch's own, over a backend that does nothing.
"""

from __future__ import annotations

import contextlib
import re
import threading
import weakref
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Protocol
from unittest.mock import patch

import torch
import torch.distributed as dist
from torch._C import DispatchKey, DispatchKeySet, _distributed_c10d
from torch.distributed import distributed_c10d

from conformance.core.worlds import SIMULATED
from conformance.ranks.collectives import recorded
from conformance.ranks.simulated import levels
from conformance.ranks.simulated.collectives import OPERATORS

POINT_TO_POINT = ("send", "recv_", "recv_any_source_")
#: Every call passes it; below are the keys of devices.
KEY = DispatchKey.BackendSelect


class Carrier(Protocol):
    """A simulated world, as the kernels use it."""

    #: The names of each rank's groups, as PyTorch keeps them.
    names: list[dict[Any, Any]]
    #: Keeps alive the objects that stand for a backend in PyTorch's groups; the world is found by them.
    backends: list[Any]

    def carry_out(self, operator: str, arguments: dict[str, Any], group: dist.ProcessGroup) -> dist.Work:
        """Begin an operator for the rank whose turn it is; its arguments are by name."""

    def note(self, line: Callable[[], str]) -> None:
        """Record a collective that it enters."""


class _Here(threading.local):
    """Return the world of a rank's thread, or of a thread that a rank started; None for any other thread."""

    world: Carrier | None = None

    def note(self, line: Callable[[], str]) -> None:
        if self.world is not None:
            self.world.note(line)


here = _Here()
#: Worlds by the backends of their groups.
_worlds_of: weakref.WeakKeyDictionary[Any, Carrier] = weakref.WeakKeyDictionary()
CPU, GLOO = torch.device("cpu"), "gloo"
_USUAL_START = dist.ProcessGroup._start_coalescing
_USUAL_MONITORED = vars(dist.ProcessGroup)["monitored_barrier"]
_changing = threading.Lock()
_live: list[Carrier] = []
_open = contextlib.ExitStack()


@contextlib.contextmanager
def installed(world: Carrier) -> Iterator[None]:
    """Route collectives of ranks' threads to their worlds; those of other threads go on to their backends.

    Several worlds may be simulated at a time. The last one to end routes no more.
    """
    with _changing:
        if not _live:
            if SIMULATED not in dist.Backend.backend_list:
                dist.Backend.register_backend(SIMULATED, _inert, devices=["cpu"])
            _open.callback(_library()._destroy)
            _open.enter_context(levels.shared())
            _open.enter_context(recorded(here))
            for name, ours in REPLACED.items():
                usual = getattr(distributed_c10d, name)
                _open.enter_context(patch.object(distributed_c10d, name, partial(ours, usual)))
            _open.enter_context(patch.object(dist.ProcessGroup, "_start_coalescing", _start_coalescing))
            _open.enter_context(patch.object(dist.ProcessGroup, "monitored_barrier", _monitored_barrier))
        _live.append(world)
    try:
        yield
    finally:
        with _changing:
            _live.remove(world)
            if not _live:
                _open.close()


def _forget(usual: Callable[[], object]) -> None:
    """Forget the groups that one rank, or the process, destroys: PyTorch would forget those of all ranks."""
    usual()
    for group, name in [pair for world in _live for names in world.names for pair in names.items()]:
        _distributed_c10d._register_process_group(name, group)


def _start_coalescing(group: dist.ProcessGroup, device: torch.device) -> None:
    """Refuse what Gloo refuses: the inert backend would take the end of a block for that of the work in it."""
    if _world(group) is None:
        _USUAL_START(group, device)
        return
    distributed_c10d._world.pg_coalesce_state.pop(group, None)  # else it would keep the calls to come
    raise RuntimeError(f"Backend {GLOO} does not implement startCoalescing")


def _monitored_barrier(group: dist.ProcessGroup, *args: Any, **options: Any) -> None:
    if _world(group) is None:
        _USUAL_MONITORED(group, *args, **options)
    else:
        dist.barrier(group)


def _world(group: dist.ProcessGroup | None) -> Carrier | None:
    """Return the world of this thread; one that a rank started is recognized by the group that it uses."""
    if here.world is None and group is not None and CPU in group._device_types:
        here.world = _worlds_of.get(group._get_backend(CPU))
    return here.world


def _make(
    usual: Callable[..., Any], size: int, rank: int, members: list[int], backend: str, *more: Any, **own: Any
) -> Any:
    """Make a process group; where a rank asks for Gloo, it gets a simulated backend under that name."""
    asked = re.sub(f"{GLOO}|{dist.Backend.UNDEFINED}", SIMULATED, backend.lower())
    if asked == backend or _world(distributed_c10d.GroupMember.WORLD) is None:
        return usual(size, rank, members, backend, *more, **own)
    group, store = usual(size, rank, members, asked, *more, **own)
    if store is not None:
        there, name = distributed_c10d._world, dist.Backend(asked.replace(SIMULATED, GLOO))
        there.pg_map[group] = name, store
        there.pg_backend_config[group] = str(distributed_c10d.BackendConfig(name))
    return group, store


def _wrap(usual: Callable[..., Any], wrapped_pg: Any, **options: Any) -> Any:
    """Return a simulated backend without the checks of TORCH_DISTRIBUTED_DEBUG=DETAIL, which ask Gloo."""
    return usual(wrapped_pg, **options) if here.world is None else wrapped_pg


#: What is replaced in torch.distributed while a world is simulated; each gets the usual function first.
REPLACED: dict[str, Callable[..., Any]] = {
    "_unregister_all_process_groups": _forget,
    "_new_process_group_helper": _make,
    "_create_process_group_wrapper": _wrap,
}


def _library() -> torch.library.Library:
    library = torch.library.Library("c10d", "IMPL")
    for name in (*OPERATORS, *POINT_TO_POINT):
        if hasattr(torch.ops.c10d, name):
            library.impl(name, _kernel(getattr(torch.ops.c10d, name).default), KEY.name, with_keyset=True)
    return library


def _kernel(operator: torch._ops.OpOverload[..., Any]) -> Callable[..., Any]:
    schema, name = operator._schema, operator._opname
    names = [argument.name for argument in schema.arguments]
    returns_tensors = len(schema.returns) > 1
    own = DispatchKeySet(KEY)
    kinds = (DispatchKey.CPU, DispatchKey.SparseCPU) if name == "allreduce_" else (DispatchKey.CPU,)

    def kernel(keys: DispatchKeySet, *args: Any) -> Any:
        arguments = dict(zip(names, args, strict=False))
        group = dist.ProcessGroup.unbox(arguments["process_group"])
        world = _world(group)
        if world is None or not any(map(keys.has, kinds)):
            # Without the interpreter's lock: a thread of Gloo may want it before this call can go on.
            return operator.redispatch(keys - own, *args)
        boxed = world.carry_out(name, arguments, group).boxed()
        return (args[0], boxed) if returns_tensors else boxed

    return kernel


def _inert(store: Any, rank: int, size: int, timeout: Any) -> Any:
    made = _distributed_c10d.FakeProcessGroup._create_internal(rank, size)
    if here.world is not None:
        _worlds_of[made] = here.world
        here.world.backends.append(made)
    return made
