"""Define what the suite needs for each spec beside its clauses: how its Function is called, and with which samples."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any, Literal, get_args

import torch

from conformance.core import homes
from conformance.core.errors import UsageError
from conformance.kit.results import Form

__all__ = ["Specification", "random"]

#: How ``Function.backward.gradient`` judges: numerically, by a formula that is declared, or not, as the spec does.
GradientKind = Literal["numeric", "declared", "spec"]
GRADIENT_KINDS: tuple[GradientKind, ...] = get_args(GradientKind)


@dataclass(frozen=True)
class Specification:
    """What the suite must know of a documented class beside its clauses.

    Args:
        inputs: gets the rank and the world size, and yields (label, arguments) pairs; where there is none, a subject
            brings its own.
        gathers: whether every call is a collective of all ranks.
        gradient: how ``Function.backward.gradient`` judges.
        result: the form in which the documented class gives what it gathered, for a gather.
        typed: whether its tensors have SPMD types.
        make: makes what is called of a subject's target, once and for all; a class is called by ``apply``.

    >>> Specification(inputs=lambda rank, size: iter([("a vector", (random((3,), seed=rank),))])).gradient
    'numeric'
    """

    inputs: Callable[[int, int], Iterator[tuple[str, tuple[Any, ...]]]] | None = None
    gathers: bool = False
    gradient: GradientKind = "numeric"
    result: Form | None = None
    typed: bool = False
    make: Callable[[Any], Any] = lambda function: function


def random(shape: tuple[int, ...], seed: int, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    """Return a seeded tensor of random numbers that requires grad: the same on every machine and in every process.

    Args:
        shape: its shape.
        seed: other seeds give other numbers.
        dtype: its dtype.

    >>> random((2, 3), seed=0).shape
    torch.Size([2, 3])
    """
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, dtype=dtype, generator=generator).requires_grad_()


def apply(function: Any, *args: Any) -> Any:
    """Call a Function class by ``apply``, anything else as it is: for the ``call`` of a subject."""
    return function.apply(*args) if isinstance(function, type) else function(*args)  # type: ignore[attr-defined]


#: Of the specs without a folder.
HOUSE = {
    "Function": Specification(),
    "Collective": Specification(gathers=True, gradient="spec", typed=True),
}


def specification(name: str) -> Specification:
    """The specification of a name: the object ``specification`` in its folder, if it has one.

    Raises:
        UsageError: there is none, or its module cannot be imported.
    """
    return HOUSE[name] if name in HOUSE else _found(name, tuple(sys.path))


@cache
def _found(name: str, path: tuple[str, ...]) -> Specification:
    """Find it on a path: every call of a subject asks, and reading what is installed takes longer than the call."""
    home = homes.find(name)
    module = f"{home.package}.{homes.SPEC}"
    try:
        found = getattr(import_module(module), "specification", None)
    except Exception as error:
        said = f"importing {module} raises {type(error).__name__}: {error}"
        raise UsageError(f"spec {home.name} ({home.origin}): {said}") from error
    if not isinstance(found, Specification):
        raise UsageError(f"spec {home.name} ({home.origin}): {module} must hold specification = Specification(...)")
    return found
