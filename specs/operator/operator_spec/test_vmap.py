"""The rule for ``torch.vmap``: sample by sample, for a batch along any dimension."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from conformance.kit import clause, expect, need
from operator_spec.spec import call, definition_of, has_rule, overload_of, tensors_in
from operator_spec.variants import called, fresh

BATCH = 3


@clause("Operator.vmap.batched")
def test_a_batch_gives_what_its_samples_give(subject: Any, world: Any) -> None:
    """Along each dimension of each tensor argument with the others as they are, and of all of them at once."""
    for what, in_dims, args in _batches(subject, world):
        each = [called(subject, tuple(map(_entry, args, in_dims, [number] * len(args)))) for number in range(BATCH)]
        wanted = [torch.stack(alike) for alike in zip(*map(tensors_in, each), strict=True)]
        found = tensors_in(_mapped(subject, in_dims, args))
        for one, other in zip(found, wanted, strict=True):
            expect.close(one, other, f"result of {what}")


@clause("Operator.vmap.out-dims")
def test_the_rule_says_of_each_result_where_its_batch_is(subject: Any, world: Any) -> None:
    """As many out_dims as results, each a dimension or None."""
    definition = definition_of(subject.target)
    need(definition is not None, "its rule was not registered with register_vmap")
    assert definition is not None
    rule, returned = definition._vmap_fn, []
    for what, in_dims, args in _batches(subject, world):
        definition._vmap_fn = lambda *given, **options: returned.append(rule(*given, **options)) or returned[-1]
        try:
            _mapped(subject, in_dims, args)
        finally:
            definition._vmap_fn = rule
        results, out_dims = returned[-1]
        expect.equal(_structure(out_dims), _structure(results), f"out_dims of {what}")


def _structure(value: Any) -> str:
    """Tell what is a single one, and what holds several."""
    if isinstance(value, tuple | list):
        return f"{len(value)} in a {type(value).__name__}"
    return "a single one"


def _batches(subject: Any, world: Any) -> Iterator[tuple[str, tuple[int | None, ...], tuple[Any, ...]]]:
    """Yield each way to batch each sample: its name, its in_dims, and the arguments of one entry."""
    schema = overload_of(subject.target)._schema
    need(has_rule(subject.target), "no rule for vmap is registered")
    need(not schema.is_mutable, "an operator that changes arguments has no batch of fresh results")
    seen = False
    for sample in subject.samples(world):
        args = fresh(sample.args)
        places = [place for place, value in enumerate(args) if isinstance(value, torch.Tensor)]
        ways = [{place: dim} for place in places for dim in range(args[place].dim() + 1)]
        if len(places) > 1:
            ways += [dict.fromkeys(places, 0), {place: args[place].dim() * (place > 0) for place in places}]
        for way in ways:
            seen = True
            named = ", ".join(f"dimension {dim} of argument {place}" for place, dim in way.items())
            in_dims = tuple(way.get(place) for place in range(len(args)))
            yield f"sample {sample.label} in a batch along {named}", in_dims, args
    need(seen, "no argument is a tensor")


def _mapped(subject: Any, in_dims: tuple[int | None, ...], args: tuple[Any, ...]) -> Any:
    batch = [
        value if dim is None else torch.stack([_entry(value, dim, number) for number in range(BATCH)], dim)
        for value, dim in zip(args, in_dims, strict=True)
    ]
    return torch.vmap(lambda *given: call(subject.target, given), in_dims)(*batch)


def _entry(value: Any, dim: int | None, number: int) -> Any:
    """Return one entry of a batch of this argument."""
    return value if dim is None or not value.is_floating_point() else value + number
