"""Find variables of modules that each simulated rank has as its own, and process groups in those that they share."""

from __future__ import annotations

import functools
import linecache
import re
import sys
import types
from collections.abc import Collection, Mapping, Sequence
from types import ModuleType
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh

#: Modules that keep groups for each rank, or none.
OWN = {"torch", "torchgen", "conformance", "numpy", "sympy", "pytest", "_pytest", *sys.stdlib_module_names}
OWN -= {"__main__"}
SHARED = (
    "not judged on simulated ranks: {} holds the process group of one rank, and all of them share it; "
    "use real ranks, without --backend simulated or simulated=True"
)
#: In a container with more values, none is looked for.
MOST = 100
#: What most values are: no group, and without parts. By id, for a class may refuse to be hashed.
PLAIN = {
    *map(id, (type(None), bool, int, float, str, bytes, property, staticmethod, classmethod, ModuleType)),
    *map(id, (types.FunctionType, types.BuiltinFunctionType, types.GetSetDescriptorType, types.MemberDescriptorType)),
    *map(id, (types.WrapperDescriptorType, types.MethodDescriptorType, types.ClassMethodDescriptorType)),
}
CONTAINERS = (list, tuple, set)
#: A statement with which a function says that it sets variables of its module.
GLOBAL = re.compile(r"^\s+global\s+([\w, ]+)", re.MULTILINE)
#: What makes process groups. Other modules keep what they have changed of the process: that is for all ranks.
MAKERS = ("new_group", "init_device_mesh")
#: A module that uses distributed PyTorch has one of these.
IMPORTED = (torch, dist, dist.new_group, dist.init_device_mesh)


def set_by_functions() -> dict[str, tuple[str, ...]]:
    """Return the variables that functions set, of modules that make process groups: libraries keep groups in them.

    What is kept in a container or an object, ranks share.
    """
    return _set_by_functions(len(sys.modules))


@functools.lru_cache(1)
def _set_by_functions(modules: int) -> dict[str, tuple[str, ...]]:
    """Look again only where the number of modules has changed: a world is asked for every test."""
    others = [key for key in list(sys.modules) if key.partition(".")[0] not in OWN]
    return {key: names for key in others if (names := _globals_of(key))}


@functools.cache
def _globals_of(key: str) -> tuple[str, ...]:
    """Return the names in the ``global`` statements of a module that makes process groups; it is read once."""
    module: Any = sys.modules.get(key)
    there = list(getattr(module, "__dict__", {}).values())
    if type(module) is not ModuleType or not any(value is each for value in there for each in IMPORTED):
        return ()
    source = "".join(linecache.getlines(getattr(module, "__file__", None) or ""))
    if not any(maker in source for maker in MAKERS):
        return ()
    return tuple(sorted({name.strip() for names in GLOBAL.findall(source) for name in names.split(",")} - {""}))


def why_not(groups: Sequence[Mapping[Any, str]], is_used: bool) -> str:
    """Say why a failure on simulated ranks says nothing of the subject; empty if it does.

    Args:
        groups: the names of each rank's groups.
        is_used: whether a rank used the group of another rank.
    """
    if len(groups) < 2:
        return ""
    place = holder({name for own in groups for name in own.values()})
    if not place and not is_used:
        return ""
    return SHARED.format(place or "a variable of the process")


def holder(names: Collection[str]) -> str:
    """Return the name of a variable that holds one of these groups, itself or two levels below; empty if none does."""
    for key, module in list(sys.modules.items()):
        if key.partition(".")[0] not in OWN:
            for name, value in list(getattr(module, "__dict__", {}).items()):
                if id(type(value)) not in PLAIN and _holds(value, names, levels=2):
                    return f"{key}.{name}"
    return ""


def _holds(value: Any, names: Collection[str], levels: int) -> bool:
    kind = type(value)  # an odd class may say that it is another one
    if kind is DeviceMesh or issubclass(kind, dist.ProcessGroup):
        return kind is DeviceMesh or value.group_name in names
    parts = _parts_of(value, kind) if levels else ()
    inside = [one for one in parts if id(type(one)) not in PLAIN] if len(parts) <= MOST else []
    return any(_holds(one, names, levels - 1) for one in inside)


def _parts_of(value: Any, kind: type) -> Any:
    """Return the values in a container, an object or a class; one of a lazy or odd class has none."""
    if issubclass(kind, dict):
        return value.values()
    if issubclass(kind, CONTAINERS):
        return value
    try:
        origin = value.__module__ if issubclass(kind, type) else kind.__module__
        return vars(value).values() if str(origin).partition(".")[0] not in OWN else ()
    except Exception:  # a class may refuse even to say where it is from
        return ()
