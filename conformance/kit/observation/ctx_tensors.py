"""Find tensors and NumPy arrays on a ctx: directly, in containers, in objects."""

from __future__ import annotations

import functools
import reprlib
import sys
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh

from conformance.kit.seeds import devices_in_use

#: Objects are looked into so many deep; what a program builds around its tensors has no end.
DEPTH = 4
#: Size of the state of a CUDA generator (bytes).
CUDA_STATE = 16
#: Things that own tensors of their own, or lead to the whole program.
OPAQUE = (
    torch.nn.Module,
    torch.Generator,
    DeviceMesh,
    dist.Work,
    type,
    types.FunctionType,
    types.BuiltinFunctionType,
    types.ModuleType,
)


def _is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and not _is_generator_state(value)


def tensors_on(ctx: Any, foreign: Iterable[Any] = ()) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield every tensor reachable from a ctx, with its path, such as ``ctx.cache[0]``.

    Args:
        ctx: the context of a call.
        foreign: objects of the caller; ctx may refer to them, and what is inside is the caller's.

    >>> from types import SimpleNamespace
    >>> [way for way, _ in tensors_on(SimpleNamespace(scale=2.0, cache=[torch.ones(1)]))]
    ['ctx.cache[0]']
    >>> deep = SimpleNamespace(tensors=[torch.ones(1)])
    >>> chain = SimpleNamespace(a=SimpleNamespace(b=SimpleNamespace(c=deep)))
    >>> [way for way, _ in tensors_on(SimpleNamespace(chain=chain, holder=deep))]
    ['ctx.holder.tensors[0]']
    """
    seen = {id(value) for value in foreign if not isinstance(value, torch.Tensor | list | tuple | dict | set)}
    own = [(f"ctx.{name}", value) for name, value in vars(ctx).items()]
    yield from _walk(
        [*own, *((f"ctx.metadata[{reprlib.repr(key)}]", one) for key, one in _metadata(ctx).items())], seen
    )


def arrays_on(ctx: Any) -> Iterator[tuple[str, int]]:
    """Yield the path and the address of every NumPy array that is reachable from a ctx."""
    for way, array in _walk([(f"ctx.{name}", value) for name, value in vars(ctx).items()], set(), _is_array):
        yield way, array.ctypes.data


def _is_array(value: Any) -> bool:
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, numpy.ndarray)


def named_tensors_in(value: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield every tensor in a container or an object, with its path in there, such as ``.table[0]``."""
    return _walk([("", value)], set())


def _metadata(ctx: Any) -> Mapping[str, Any]:
    """What anomaly mode keeps with a node; nothing once the node is gone, which PyTorch says by an error until 2.12."""
    try:
        return getattr(ctx, "metadata", {})
    except RuntimeError:
        return {}


def _walk(
    level: list[tuple[str, Any]], seen: set[int], is_wanted: Callable[[Any], bool] = _is_tensor
) -> Iterator[tuple[str, Any]]:
    """Yield what is wanted with its path, level by level: an object is seen by its shortest path, with all below it."""
    kept = []  # an object that is made for the walk alone would leave its address to another
    for left in range(DEPTH, -1, -1):
        inner = []
        for way, value in level:
            if is_wanted(value):
                yield way, value
            elif left and id(value) not in seen and not isinstance(value, (torch.Tensor, *OPAQUE)):
                seen.add(id(value))
                kept.append(value)
                inner += [(way + step, part) for step, part in _inside(value)]
        level = inner


def _is_generator_state(tensor: torch.Tensor) -> bool:
    """Whether a tensor is the state of a random number generator, which no hook may round."""
    of_devices = {module.get_rng_state().numel() for module in devices_in_use().values()}
    sizes = {torch.default_generator.get_state().numel(), CUDA_STATE, *of_devices}
    return tensor.dtype is torch.uint8 and tensor.dim() == 1 and tensor.numel() in sizes


def _inside(value: Any) -> Iterator[tuple[str, Any]]:
    """Return the parts of a value, each with its path."""
    if isinstance(value, str | bytes | int | float | complex | torch.Size):
        return
    if isinstance(value, Mapping):
        yield from ((f"[{reprlib.repr(key)}]", inner) for key, inner in value.items())
    elif isinstance(value, list | tuple):
        yield from ((f"[{index}]", inner) for index, inner in enumerate(value))
    elif isinstance(value, set | frozenset):
        yield from ((" (in the set)", inner) for inner in value)
    elif isinstance(value, functools.partial):
        yield ".args", value.args
        yield ".keywords", value.keywords
    else:
        yield from ((f".{name}", inner) for name, inner in _attributes(value).items())


def _attributes(value: Any) -> dict[str, Any]:
    found = dict(getattr(value, "__dict__", {}))
    slots = (name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ()))
    return found | {name: getattr(value, name) for name in slots if isinstance(name, str) and hasattr(value, name)}
