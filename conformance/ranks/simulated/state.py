"""Save and restore, as ranks take turns, state of the process that each simulated rank has as its own.

Grad mode, autocast, the current device, modes and the default device are per thread in PyTorch already.
"""

from __future__ import annotations

import _random
import ctypes
import functools
import itertools
import random
import sys
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any, NamedTuple

import torch
from torch.autograd import Function, forward_ad
from torch.distributed import distributed_c10d
from torch.utils.hooks import BackwardHook

from conformance.kit import seeds, stand_ins
from conformance.ranks.simulated.shared import set_by_functions

ABSENT = object()
#: Dictionaries in which torch.distributed keeps its groups, and the number that the next group's name is made of.
GROUPS = ("_pg_map", "_pg_names", "_pg_group_ranks", "_pg_backend_config", "_tags_to_pg", "_pg_to_tag")
NUMBERS = ("_group_count",)
#: What names a group. PyTorch keeps groups by name in one table for the whole process.
NAMING = "_process_group_name"
_naming = getattr(distributed_c10d, NAMING)
_fresh = itertools.count()
#: Variables of modules that each rank sets, by module.
VARIABLES: dict[str, tuple[str, ...]] = {
    distributed_c10d.__name__: ("_world", "_backend", "_default_pg_init_method", NAMING, *GROUPS, *NUMBERS),
    forward_ad.__name__: ("_current_level",),
    "torch._functorch.eager_transforms": ("JVP_NESTING",),
    warnings.__name__: ("filters", "showwarning", "_showwarnmsg_impl"),
    "sys": ("excepthook",),
    "spmd_types._checker": ("_orig_autograd_apply",),
    "spmd_types._backward_hooks": ("_orig_setup_input_hook", "_orig_setup_output_hook"),
}
#: The same of other people's modules: variables that their functions set.
OTHERS: dict[str, tuple[str, ...]] = {}
#: Members of classes that spmd_types replaces while it tracks types, on whichever rank does.
MEMBERS = ((Function, "apply"), (BackwardHook, "setup_input_hook"), (BackwardHook, "setup_output_hook"))


class Numbers(NamedTuple):
    """A state of a Mersenne twister: its memory, which is quick to read, and the whole, which is slow.

    The memory is empty if it does not determine the state: a normal number kept for later is not part of it.
    """

    memory: bytes
    whole: tuple[Any, ...]


#: Where a state says whether a normal number is kept, by how many parts it has: Python's has three, NumPy's five.
KEPT_NORMAL = {3: 2, 5: 3}


class Twister:
    """A generator whose whole state is read and written only where its memory has changed.

    Args:
        memory: returns its memory; empty if it is of another kind than usual.
        read: returns the whole state.
        write: restores the whole state.
    """

    def __init__(
        self, memory: Callable[[], bytes], read: Callable[[], tuple[Any, ...]], write: Callable[[Any], object]
    ) -> None:
        self.memory, self.read, self.write = memory, read, write
        self.last: Numbers | None = None

    def taken(self) -> Numbers:
        """Return the state."""
        memory = self.memory()
        if self.last is None or not memory or memory != self.last.memory:
            whole = self.read()
            self.last = Numbers(b"" if whole[KEPT_NORMAL[len(whole)]] else memory, whole)
        return self.last

    def put(self, numbers: Numbers) -> None:
        """Restore a state, given that the last one that was taken or restored is the present one."""
        last, self.last = self.last, numbers
        if last is not numbers and not (last and last.memory and last.memory == numbers.memory):
            self.write(numbers.whole)


#: How much memory a Mersenne twister has: its words, and the place among them (bytes).
TWISTER = 625 * 4
#: Where Python's generator has it: it follows the head of the object, filled up to a multiple of eight.
HEAD = object.__basicsize__
IS_USUAL = _random.Random.__basicsize__ == HEAD + TWISTER + 4


def _python_memory() -> bytes:
    """Return the memory of Python's generator; empty if it is of another size."""
    return ctypes.string_at(id(vars(random)["_inst"]) + HEAD, TWISTER) if IS_USUAL else b""


def _numpy_memory() -> bytes:
    numpy = seeds.numpy_random()
    generator = numpy.mtrand._rand._bit_generator
    return ctypes.string_at(generator.ctypes.state_address, TWISTER) if isinstance(generator, numpy.MT19937) else b""


_python = Twister(_python_memory, random.getstate, random.setstate)
_numpy = Twister(
    _numpy_memory, lambda: seeds.numpy_random().get_state(), lambda whole: seeds.numpy_random().set_state(whole)
)


class Variable(NamedTuple):
    """A variable of a module or a class, by its name there."""

    owner: ModuleType | type
    there: Mapping[str, Any]
    name: str


@dataclass
class Saved:
    """One rank's own state of the process."""

    variables: tuple[Variable, ...]
    #: Their values, in the same order; ABSENT for one that is not there.
    values: list[Any]
    torch_numbers: torch.Tensor
    python_numbers: Numbers
    numpy_numbers: Numbers | None
    dtype: torch.dtype
    stand_ins: list[stand_ins.StandIn]


@functools.lru_cache(1)
def _variables(modules: int, others: int) -> tuple[Variable, ...]:
    """List the variables; again only where the number of modules has changed, for this is asked at each switch."""
    owners: list[tuple[Any, tuple[str, ...]]] = [(owner, (name,)) for owner, name in MEMBERS]
    owners += [(sys.modules.get(key), names) for key, names in (VARIABLES | OTHERS).items()]
    return tuple(Variable(owner, vars(owner), name) for owner, names in owners if owner for name in names)


def taken() -> Saved:
    """Save the state, and remove replacements of classes' methods."""
    variables = _variables(len(sys.modules), len(OTHERS))
    return Saved(
        variables,
        [there.get(name, ABSENT) for _, there, name in variables],
        torch.default_generator.get_state(),
        _python.taken(),
        _numpy.taken() if seeds.numpy_random() else None,
        torch.get_default_dtype(),
        stand_ins.taken_down(),
    )


def begin() -> Saved:
    """Save the state that ranks begin with, of all modules that are imported by now."""
    OTHERS.update(set_by_functions())
    return taken()


def with_later_modules(own: Saved, outside: Saved) -> Saved:
    """Return a rank's state with the variables of modules that have been imported since it was saved."""
    if own.variables is outside.variables:
        return own
    there = {(id(owner), name): value for (owner, _, name), value in zip(own.variables, own.values, strict=True)}
    ours = zip(outside.variables, outside.values, strict=True)
    values = [there.get((id(owner), name), value) for (owner, _, name), value in ours]
    return replace(own, variables=outside.variables, values=values)


def put(saved: Saved) -> None:
    """Restore a state."""
    for (owner, there, name), value in zip(saved.variables, saved.values, strict=True):
        if value is not ABSENT and there.get(name) is not value:
            setattr(owner, name, value)
    torch.default_generator.set_state(saved.torch_numbers)
    _python.put(saved.python_numbers)
    if saved.numpy_numbers is not None:
        _numpy.put(saved.numpy_numbers)
    if torch.get_default_dtype() != saved.dtype:
        torch.set_default_dtype(saved.dtype)
    stand_ins.put_up(saved.stand_ins)


def parts_of_name(group: Any) -> tuple[str, str]:
    """Return the name of a group as all its ranks know it, and what only those of the same rank end with."""
    name, _, mark = str(group.group_name).partition("@")
    return name, mark


def fresh(outside: Saved) -> Saved:
    """Return the state that a rank begins with: that of the process, without a process group."""
    number = next(_fresh)
    new: dict[str, Any] = {name: {} for name in GROUPS} | dict.fromkeys(NUMBERS, 0)
    new |= {"_world": distributed_c10d._World(), "_backend": None, "_default_pg_init_method": None}
    new |= {NAMING: lambda *args, **options: f"{_naming(*args, **options)}@{number}"}
    new |= {"filters": [("ignore", None, Warning, None, 0)]}  # as in a rank's process
    values = [
        new.get(name, value) if owner.__name__ in VARIABLES and value is not ABSENT else value
        for (owner, _, name), value in zip(outside.variables, outside.values, strict=True)
    ]
    return replace(outside, values=values, stand_ins=[])
