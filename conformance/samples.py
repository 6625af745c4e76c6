"""Sample arguments: taken from the caller or from the spec, handed out fresh, so that no test spoils another's."""

from __future__ import annotations

import random as python_random
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree

from conformance.subject import BadSubject, Subject


@dataclass(frozen=True)
class Sample:
    """One call's arguments and a name for them."""

    args: tuple[Any, ...]
    label: str


def samples(subject: Subject, world: Any) -> list[Sample]:
    """Fresh samples of a subject: leaves of their own, with the strides and requires_grad of the originals.

    Raises:
        BadSubject: the inputs raise, are no tuples, or there are none.
    """
    return [Sample(fresh(args), label) for label, args in _given(subject, world)]


def fresh(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Copy every tensor and array of an argument tuple, however nested.

    A tensor's copy is a leaf, and has its shape, strides, dtype and requires_grad. Other objects are handed on.

    >>> x = torch.zeros(2, 3).t()
    >>> (copy,) = fresh((x,))
    >>> copy is x, copy.stride() == x.stride()
    (False, True)
    """
    copied = pytree.tree_map_only(torch.Tensor, _copied, args)
    if "numpy" in sys.modules:
        copied = pytree.tree_map_only(sys.modules["numpy"].ndarray, lambda array: array.copy(order="K"), copied)
    return tuple(copied)


def _copied(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.layout != torch.strided or type(tensor) not in {torch.Tensor, torch.nn.Parameter}:
        return tensor.detach().clone().requires_grad_(tensor.requires_grad)
    # The storage is copied whole, so that strides, offset and overlaps stay as the caller made them.
    storage = tensor.untyped_storage().clone()
    copy = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
    copy.set_(storage, tensor.storage_offset(), tensor.shape, tensor.stride())
    copy = copy.conj() if tensor.is_conj() else copy
    copy = copy._neg_view() if tensor.is_neg() else copy
    copy.requires_grad_(tensor.requires_grad)
    # A view stays a view: some Functions are about views.
    return copy if tensor._base is None else copy.view_as(copy)


def _given(subject: Subject, world: Any) -> list[tuple[str, tuple[Any, ...]]]:
    if subject.inputs is None:
        return _on_device(list(subject._spec.inputs(world.rank, world.size)), world)
    try:
        with _seeded(1_000 + world.rank):
            given = list(_called(subject.inputs))
    except Exception as error:
        raise BadSubject(f"the inputs of {subject.label} raise {type(error).__name__}: {error}") from error
    if not given:
        raise BadSubject(f"the inputs of {subject.label} yield nothing; one tuple of arguments at least is needed")
    for item in given:
        if not isinstance(item, tuple):
            raise BadSubject(f"the inputs of {subject.label} yield a {type(item).__name__}, not a tuple of arguments")
    return _on_device([(f"inputs {index}", item) for index, item in enumerate(given)], world)


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Start the generators that inputs may draw from, and put them back."""
    state, python_state = torch.get_rng_state(), python_random.getstate()
    # torch.manual_seed would also seed a CUDA device that nobody has begun to use.
    torch.default_generator.manual_seed(seed)
    python_random.seed(seed)
    numpy = getattr(sys.modules.get("numpy"), "random", None)
    numpy_state = numpy.get_state() if numpy else None
    if numpy:
        numpy.seed(seed)
    try:
        yield
    finally:
        torch.set_rng_state(state)
        python_random.setstate(python_state)
        if numpy:
            numpy.set_state(numpy_state)


def _called(inputs: Any) -> Iterable[Any]:
    given: Iterable[Any] = inputs() if callable(inputs) else inputs
    return given


def _on_device(given: list[tuple[str, tuple[Any, ...]]], world: Any) -> list[tuple[str, tuple[Any, ...]]]:
    if str(world.device) == "cpu":
        return given
    return [(label, _moved(args, world.device)) for label, args in given]


def _moved(args: tuple[Any, ...], device: Any) -> tuple[Any, ...]:
    def move(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.detach().to(device).requires_grad_(tensor.requires_grad)

    return tuple(pytree.tree_map_only(torch.Tensor, move, args))
