"""Seed and restore generators of random numbers. This is the only place that does so."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import FunctionType, ModuleType
from typing import Any

import torch

from conformance.kit import expect

#: How many objects of the caller are searched for generators, and how deep.
_MOST_OBJECTS = 1000
_DEPTH = 4


def seed(number: int, arguments: Iterable[Any] = ()) -> None:
    """Seed every generator that a Function may draw from.

    ``torch.manual_seed`` takes a hundred times as long, since it prepares unused devices. Generators that the
    ``arguments`` of the next call :func:`hold <held_generators>` are restarted too.
    """
    for generator in held_generators(arguments):
        _start(generator, number)
    torch.default_generator.manual_seed(number)
    for module in devices_in_use().values():
        module.manual_seed_all(number)
    random.seed(number)
    numpy = numpy_random()
    if numpy:
        numpy.seed(number)


@contextmanager
def generators_restored() -> Iterator[None]:
    """Restore every generator at the end."""
    state, python_state, numpy = torch.get_rng_state(), random.getstate(), numpy_random()
    numpy_state = numpy.get_state() if numpy else None
    devices = [
        (module, index, module.get_rng_state(index))
        for module in devices_in_use().values()
        for index in range(module.device_count())
    ]
    try:
        yield
    finally:
        torch.set_rng_state(state)
        random.setstate(python_state)
        if numpy:
            numpy.set_state(numpy_state)
        for module, index, device_state in devices:
            module.set_rng_state(device_state, index)


@contextmanager
def seeded(number: int) -> Iterator[None]:
    """Start every generator, and restore each at the end."""
    with generators_restored():
        seed(number)
        yield


def states() -> dict[str, Any]:
    """Return the state of each generator on the CPU that a Function may draw from, by its name in messages."""
    found = {"PyTorch's": torch.get_rng_state().tolist(), "Python's": random.getstate()}
    numpy = numpy_random()
    if numpy:
        algorithm, keys, *rest = numpy.get_state()
        found["NumPy's"] = (algorithm, keys.tolist(), *rest)
    return found


def expect_not_seeded(one: dict[str, Any], other: dict[str, Any], after: str) -> None:
    """Assert that a call seeds no generator, by the :func:`states` after two calls that began with different seeds.

    Drawing numbers moves a state on; only seeding takes two different states to the same one.
    """
    seeded = [name for name, state in one.items() if state == other.get(name)]
    expect.that(
        not seeded,
        f"state of {' and '.join(seeded)} random number generator after {after}",
        "the same, whatever it was before",
        "advanced by the numbers that were drawn, or unchanged",
        "the Function seeds the generator",
    )


def default_generator(device: torch.device) -> torch.Generator:
    """Return the generator of a device that :func:`seed` starts."""
    if device.type == "cpu":
        return torch.default_generator
    defaults = getattr(torch.get_device_module(device), "default_generators", ())
    return defaults[device.index or 0] if defaults else torch.Generator(device)


def default_in_place_of(generator: Any, place: torch.device | None = None) -> Any:
    """Return the default generator of the same kind and device; other values unchanged.

    Args:
        generator: one of PyTorch, NumPy or Python, which :func:`seed` does not seed.
        place: the device to draw on, if not the generator's own.

    >>> draws = default_in_place_of(random.Random(5))
    >>> with seeded(3):
    ...     first = draws.random()
    >>> with seeded(3):
    ...     first == draws.random()
    True
    """
    if isinstance(generator, torch.Generator):
        return default_generator(place or generator.device)
    if type(generator) is random.Random:
        return random._inst
    numpy = numpy_random()
    if numpy and isinstance(generator, numpy.Generator):
        return numpy.Generator(numpy.mtrand._rand._bit_generator)
    if numpy and isinstance(generator, numpy.RandomState):
        return numpy.mtrand._rand
    return generator


def held_generators(arguments: Iterable[Any]) -> list[Any]:
    """Return the generators in attributes of objects among the arguments, under any name, each once.

    >>> class Layer:
    ...     def __init__(self):
    ...         self.options = {"draws": random.Random(5)}
    >>> len(held_generators([Layer(), 2.0]))
    1
    """
    found: dict[int, Any] = {}
    seen: set[int] = set()
    waiting = [(value, _DEPTH) for value in arguments if not isinstance(value, _PLAIN)]
    while waiting and len(seen) < _MOST_OBJECTS:
        value, depth = waiting.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if is_generator(value) and default_in_place_of(value) is not value:
            found[id(value)] = value
        elif depth:
            waiting += [(part, depth - 1) for part in _parts_of(value) if not isinstance(part, _PLAIN)]
    return list(found.values())


#: What holds no generator, or is shared by all that is imported.
_PLAIN = (torch.Tensor, int, float, complex, str, bytes, type(None), torch.dtype, type, FunctionType, ModuleType)


def _parts_of(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    if isinstance(value, list | tuple | set):
        return list(value)
    return list(getattr(value, "__dict__", {}).values())


def is_generator(value: Any) -> bool:
    """Whether a value is a random number generator, of PyTorch, NumPy or Python."""
    numpy = numpy_random()
    return isinstance(value, (torch.Generator, random.Random, *((numpy.Generator, numpy.RandomState) if numpy else ())))


def _start(generator: Any, number: int) -> None:
    if isinstance(generator, torch.Generator):
        generator.manual_seed(number)
    elif hasattr(generator, "bit_generator"):
        generator.bit_generator.state = type(generator.bit_generator)(number).state
    else:
        generator.seed(number)


def devices_in_use() -> dict[str, Any]:
    """Return the modules of the accelerators in use, by device; looking for others would start them."""
    names = ("cuda", "xpu", torch._C._get_privateuse1_backend_name())
    modules = {name: vars(torch).get(name) for name in names}
    return {name: module for name, module in modules.items() if module is not None and module.is_initialized()}


def numpy_random() -> Any:
    """Return NumPy's module of random numbers; None if NumPy is not imported."""
    return getattr(sys.modules.get("numpy"), "random", None)
