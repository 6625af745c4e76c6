"""What the suite must know of each spec beside its clauses: how its Function is called, and with what."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

#: How a family's gradient is judged under ``Function.backward.gradient``: numerically, or by its own clauses.
NUMERIC, OWN = "numeric", "spec"


@dataclass(frozen=True)
class Spec:
    """One documented class, as the suite sees it.

    ``call`` gets the Function class (or callable) and the arguments; ``inputs`` gets the rank and the world size and
    yields (label, arguments) pairs; ``gathers`` says that every call is a collective.
    """

    name: str
    inputs: Callable[[int, int], Iterator[tuple[str, tuple[Any, ...]]]]
    call: Callable[..., Any]
    gathers: bool = False
    gradient: str = NUMERIC
    helpers: tuple[str, ...] = ()


@dataclass(frozen=True)
class Launch:
    """What towhee's AllGather reads from its second argument."""

    world_size: int
    local_rank: int


def random(shape: tuple[int, ...], seed: int, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    """A seeded tensor that requires grad: the same on every machine and in every process."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, dtype=dtype, generator=generator).requires_grad_()


def apply(function: Any, *args: Any) -> Any:
    """Call a Function class by ``apply``, anything else as it is."""
    return function.apply(*args) if isinstance(function, type) else function(*args)


def _gather_inputs(rank: int, size: int) -> Iterator[tuple[str, tuple[Any, ...]]]:
    yield "matrix", (random((2, 3), 100 + rank),)
    yield "vector", (random((4,), 200 + rank),)


def _towhee_inputs(rank: int, size: int) -> Iterator[tuple[str, tuple[Any, ...]]]:
    for label, (tensor,) in _gather_inputs(rank, size):
        yield label, (tensor, Launch(size, rank))


def _factor_inputs(rank: int, size: int) -> Iterator[tuple[str, tuple[Any, ...]]]:
    yield "half", (random((3, 2), 300 + rank), 0.5)
    yield "negative", (random((4,), 310 + rank), -2.0)


def _viewless_inputs(rank: int, size: int) -> Iterator[tuple[str, tuple[Any, ...]]]:
    yield "view", (random((4, 3), 400 + rank).view(3, 4), True)
    yield "transposed", (random((2, 3), 410 + rank).t(), True)


def _no_inputs(rank: int, size: int) -> Iterator[tuple[str, tuple[Any, ...]]]:
    return iter(())


SPECS = {
    spec.name: spec
    for spec in (
        Spec("Function", _no_inputs, apply),
        Spec("AllGatherGradAutograd", _gather_inputs, apply, gathers=True, gradient=OWN),
        Spec("AllGather", _towhee_inputs, apply, gathers=True, gradient=OWN),
        Spec("GradFactor", _factor_inputs, apply, gradient=OWN),
        Spec("MakeViewlessTensor", _viewless_inputs, apply, helpers=("make_viewless_tensor",)),
        Spec("NestedIOFunction", _no_inputs, apply),
    )
}
