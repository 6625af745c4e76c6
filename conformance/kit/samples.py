"""Sample arguments, from the caller or from the spec; every test gets fresh ones."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any

import torch
from torch.utils import _pytree as pytree

from conformance.core.errors import UsageError
from conformance.core.prose import with_article
from conformance.kit import answers
from conformance.kit.deviations import Skipped
from conformance.kit.frames import told
from conformance.kit.seeds import default_in_place_of, seeded
from conformance.kit.tensors import tensor_leaves, with_attributes

#: The most samples that a subject may have: inputs may never end.
MOST_SAMPLES = 1000
#: Under this name a world knows that its ranks have samples that match.
MATCHING = "samples match"
UNLIKE = (
    "samples differ between ranks: some have tensors, or tensors that require grad, that others lack; "
    "give every rank the same, and drop what a rank does not use in call="
)


@dataclass(frozen=True)
class Sample:
    """One call's arguments and a name for them."""

    args: tuple[Any, ...]
    label: str
    #: Places, among the flattened arguments, of what belongs to a module that is an argument too: parameters are handed
    #: over themselves, since a copy is another tensor than the one that the module computes with.
    tied: frozenset[int] = frozenset()


def samples_from(inputs: Any, label: str, rank: int, device: str) -> list[Sample]:
    """Fresh samples of a caller's inputs: leaves of their own, with the strides and requires_grad of the originals.

    Each rank draws other random numbers.

    Raises:
        UsageError: the inputs raise, are not tuples, or there are none or too many.
    """
    try:
        with seeded(1_000 + rank):
            several = _several(inputs() if callable(inputs) else inputs, label)
            given = list(islice(several, MOST_SAMPLES + 1))
    except UsageError:
        raise
    except (Exception, SystemExit) as error:
        raise UsageError(f"the inputs of {label} raise {told(error)}") from error
    if not given:
        raise UsageError(f"the inputs of {label} yield nothing; at least one tuple of arguments is needed")
    if len(given) > MOST_SAMPLES:
        raise UsageError(
            f"the inputs of {label} yield more than {MOST_SAMPLES} tuples of arguments; one of each kind is enough"
        )
    answers.SAMPLES[label] = len(given)
    for item in given:
        if not isinstance(item, tuple):
            kind = f"{with_article(item)}, not a tuple of arguments"
            raise UsageError(f"the inputs of {label} yield {kind}; {_right_form(item, several, callable(inputs))}")
        if any(tensor.is_meta for tensor in tensor_leaves(item)):
            raise UsageError(f"the inputs of {label} yield a tensor on the meta device; give one that has values")
    return prepared([(f"sample {index}", item) for index, item in enumerate(given)], device)


def _right_form(item: Any, several: Iterable[Any], made: bool) -> str:
    """Suggest how to write a sample, given what is in its place; ``made`` if a callable returned it."""
    has_samples = isinstance(item, list) and item and all(isinstance(each, tuple) for each in item)
    if has_samples or isinstance(item, Iterator) or callable(item):
        return (
            "pass samples one by one, check(function, *samples), or what yields them to Subject(function, inputs=...)"
        )
    if isinstance(item, list):
        return "write (x, 2.0), not [x, 2.0]"
    if isinstance(item, Mapping):
        return "give arguments in their order, (x, 2.0); if they need names, let call= of a Subject pass them on"
    if isinstance(several, tuple) and len(several) > 1:  # the arguments of one sample, as if each were one
        return "yield (x, 2.0) instead of returning it" if made else "each sample is one tuple: (x, 2.0)"
    return "a tuple of one argument needs a comma: (x,)"


def _several(given: Any, label: str) -> Iterable[Any]:
    """Return what was given if it is several samples, not one iterable object."""
    if given is None or isinstance(given, str | bytes | Mapping | torch.Tensor):
        kind = "None" if given is None else with_article(given)
        raise UsageError(f"the inputs of {label} are {kind}, not tuples of arguments, such as yield (x, 2.0)")
    several: Iterable[Any] = given
    return several


def expect_matching(samples: list[Sample], world: Any) -> None:
    """Expect every rank to have as many samples, with as many tensors, of which the same require grad.

    Raises:
        Skipped: they have not. What one rank alone differentiates, the others would wait for.
    """
    if world.size == 1 or world.known.get(MATCHING):
        return
    mine = [[tensor.requires_grad for tensor in tensor_leaves(sample.args)] for sample in samples]
    everyones = world.exchange(mine)
    if any(theirs != everyones[0] for theirs in everyones):
        raise Skipped(UNLIKE)
    world.known[MATCHING] = True


def prepared(given: Iterable[tuple[str, tuple[Any, ...]]], device: str) -> list[Sample]:
    """Fresh samples of labelled argument tuples, on a device."""
    return [Sample(_with_own_parameters(args, fresh(args, device)), label, _tied(args)) for label, args in given]


def _with_own_parameters(args: tuple[Any, ...], copied: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the copied arguments; parameters of a module that are arguments beside it are the module's own.

    A backward that runs the module again computes gradients of the parameters it was given: copies would get none.
    """
    originals, (values, structure) = pytree.tree_leaves(args), pytree.tree_flatten(copied)
    modules = [pair for pair in zip(originals, values, strict=True) if not isinstance(pair[0], torch.Tensor)]
    own = {
        id(parameter): moved
        for before, after in modules
        for one, other in zip(_modules_in(before), _modules_in(after), strict=True)
        for parameter, moved in zip(one.parameters(), other.parameters(), strict=True)
    }
    values = [own.get(id(original), value) for original, value in zip(originals, values, strict=True)]
    return tuple(pytree.tree_unflatten(values, structure))


def _tied(args: tuple[Any, ...]) -> frozenset[int]:
    values = pytree.tree_leaves(args)
    modules = [module for value in values for module in _modules_in(value)]
    theirs = {id(tensor) for module in modules for tensor in (*module.parameters(), *module.buffers())}
    return frozenset(at for at, value in enumerate(values) if id(value) in theirs)


def _modules_in(value: Any) -> list[torch.nn.Module]:
    """Return a module, or those that a callable runs."""
    held = [value] if isinstance(value, torch.nn.Module) else behind_callable(value)
    return [one for one in held if isinstance(one, torch.nn.Module)]


def behind_callable(value: Any, depth: int = 3) -> Iterator[torch.nn.Module | torch.Tensor]:
    """Return modules and tensors that a method, a partial call or a closure refers to, also by other callables."""
    for part in pytree.tree_leaves(list(_parts_of_callable(value))):
        if isinstance(part, torch.nn.Module | torch.Tensor):
            yield part
        elif depth > 1:
            yield from behind_callable(part, depth - 1)


def _parts_of_callable(value: Any) -> Iterator[Any]:
    if inspect.ismethod(value):
        yield value.__self__
    elif isinstance(value, partial):
        yield from (value.func, value.args, value.keywords)
    elif inspect.isfunction(value):
        for cell in value.__closure__ or ():
            with suppress(ValueError):  # of a name that has no value yet
                yield cell.cell_contents


def fresh(args: tuple[Any, ...], device: str = "cpu") -> tuple[Any, ...]:
    """Copy every tensor and array of an argument tuple, however nested, onto a device.

    A tensor's copy is a leaf, and has its shape, strides, dtype and requires_grad. In place of a random generator of
    PyTorch, NumPy or Python comes the default one there, which is seeded before every call. Other objects are handed
    on; a module too, unless it has to move. Nothing moves where the device is the CPU.

    >>> x = torch.zeros(2, 3).t()
    >>> (copy,) = fresh((x,))
    >>> copy is x, copy.stride() == x.stride()
    (False, True)
    """
    place = None if device == "cpu" else torch.device(device)
    return tuple(pytree.tree_map(lambda value: _fresh(value, place), args))


def _fresh(value: Any, place: torch.device | None) -> Any:
    if isinstance(value, torch.Tensor):
        return _copied(value, place or value.device)
    if isinstance(value, torch.nn.Module):
        return deepcopy(value).to(place) if place else value
    numpy = sys.modules.get("numpy")
    return value.copy(order="K") if numpy and isinstance(value, numpy.ndarray) else default_in_place_of(value, place)


def _copied(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    if tensor.layout != torch.strided or type(tensor) not in {torch.Tensor, torch.nn.Parameter}:
        return with_attributes(tensor.detach().clone().to(device).requires_grad_(tensor.requires_grad), tensor)
    # The storage is copied whole, so that strides, offset and overlaps stay as the caller made them.
    whole = torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(tensor.untyped_storage())
    storage = whole.to(device, copy=True).untyped_storage()
    copy = torch.empty(0, dtype=tensor.dtype, device=device)
    copy.set_(storage, tensor.storage_offset(), tensor.shape, tensor.stride())
    copy = copy.conj() if tensor.is_conj() else copy
    copy = copy._neg_view() if tensor.is_neg() else copy
    copy.requires_grad_(tensor.requires_grad)
    # A view stays a view: some Functions are about views.
    return with_attributes(copy if tensor._base is None else copy.view_as(copy), tensor)
