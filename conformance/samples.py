"""Sample arguments: taken from the caller or from the spec, handed out fresh, so that no test spoils another's."""

from __future__ import annotations

import random as python_random
from collections.abc import Iterable
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
    """Copy every tensor of an argument tuple, however nested, keeping shape, strides, dtype and requires_grad."""
    copied = pytree.tree_map_only(torch.Tensor, _copied, args)
    return tuple(copied)


def _copied(tensor: torch.Tensor) -> torch.Tensor:
    # The storage is copied whole, so that strides, offset and overlaps stay as the caller made them.
    storage = tensor.untyped_storage().clone()
    copy = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
    copy.set_(storage, tensor.storage_offset(), tensor.shape, tensor.stride())
    copy.requires_grad_(tensor.requires_grad)
    # A view stays a view: some Functions are about views.
    return copy if tensor._base is None else copy.view_as(copy)


def _given(subject: Subject, world: Any) -> list[tuple[str, tuple[Any, ...]]]:
    if subject.inputs is None:
        return _on_device(list(subject._spec.inputs(world.rank, world.size)), world)
    state, python_state = torch.get_rng_state(), python_random.getstate()
    torch.manual_seed(1_000 + world.rank)
    python_random.seed(1_000 + world.rank)
    try:
        given = list(_called(subject.inputs))
    except Exception as error:
        raise BadSubject(f"the inputs of {subject.label} raise {type(error).__name__}: {error}") from error
    finally:
        torch.set_rng_state(state)
        python_random.setstate(python_state)
    if not given:
        raise BadSubject(f"the inputs of {subject.label} yield nothing; one tuple of arguments at least is needed")
    for item in given:
        if not isinstance(item, tuple):
            raise BadSubject(f"the inputs of {subject.label} yield a {type(item).__name__}, not a tuple of arguments")
    return _on_device([(f"inputs {index}", item) for index, item in enumerate(given)], world)


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
