"""``vmap`` together with the derivatives: inside a batch, and through one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch

from conformance.kit import NO_JVP, SampleCall, Subject, World, clause, expect, need
from conformance.kit.numerics.nearby import drawn_direction
from conformance.kit.variations.batches import Batch, BatchComparison, Values, batches, expect_batches
from conformance.kit.variations.transforms import Tensors, outputs, tangents

NO_BACKWARD = "the class defines no backward, which torch.func calls"
OF_INPUT, OF_OUTPUT = "of differentiated input", "of differentiable output"


@clause("Function.vmap.batched")
def test_gradients_inside_a_batch(subject: Subject, world: World) -> None:
    """Under vmap over grad every sample gets its own gradient."""
    need(subject.defines("backward"), NO_BACKWARD)
    found = []
    for batch, places in _differentiable(subject, world):
        right, weights = _gradients(batch, world)
        compute = partial(_pulled, places=places, weights=weights)
        found.append(BatchComparison(batch, compute, right, f"{batch}: gradient inside the batch, {OF_INPUT}"))
    expect_batches(found)


def _pulled(batch: Batch, places: tuple[int, ...], weights: Tensors) -> Tensors:
    def one(values: Values, *own: torch.Tensor) -> Any:
        function, primals = _of_active(batch.sample, places, values)
        return torch.func.vjp(function, *primals)[1](own)

    return batch.map(one, extra=weights)  # type: ignore[no-any-return]


@clause("Function.vmap.batched")
def test_gradients_through_a_batch(subject: Subject, world: World) -> None:
    """A loss of the whole batch gives each sample's gradient, and their sum if the samples share an input."""
    need(subject.defines("backward"), NO_BACKWARD)
    found = []
    for batch, places in _differentiable(subject, world):
        right, weights = _gradients(batch, world)
        compute = partial(_backward, places=places, weights=weights)
        expected = _added_up_where_shared(batch, right)
        found.append(BatchComparison(batch, compute, expected, f"{batch}: gradient through the batch, {OF_INPUT}"))
    expect_batches(found)


def _backward(batch: Batch, places: tuple[int, ...], weights: Tensors) -> Tensors:
    """The gradient of each input, sample by sample; that of a shared one is the same for all of them."""
    whole = batch.whole
    leaves = {at: whole[at].clone().requires_grad_() for at in batch.sample.active}
    results = batch.map(partial(outputs, batch.sample), {**whole, **leaves})
    pairs = zip(_at(places, results), weights, strict=True)
    used = [(result, weight) for result, weight in pairs if result.requires_grad]
    made, given = [result for result, _ in used], [weight for _, weight in used]
    gradients = torch.autograd.grad(made, list(leaves.values()), given, materialize_grads=True)
    return tuple(
        gradient.movedim(batch.in_dims[at], 0)
        if at in batch.in_dims
        else gradient.expand(len(batch.rows), *gradient.shape)
        for at, gradient in zip(leaves, gradients, strict=True)
    )


def _added_up_where_shared(batch: Batch, gradients: list[list[torch.Tensor]]) -> list[Tensors]:
    totals = [torch.stack(parts).sum(0) for parts in zip(*gradients, strict=True)]
    return [
        tuple(
            part if at in batch.in_dims else total
            for at, part, total in zip(batch.sample.active, sample, totals, strict=True)
        )
        for sample in gradients
    ]


@clause("Function.vmap.batched")
def test_tangents_inside_a_batch(subject: Subject, world: World) -> None:
    """Under vmap over jvp every sample gets its own tangent."""
    need(subject.defines("jvp"), NO_JVP)
    found = []
    for batch, places in _differentiable(subject, world):
        directions = [drawn_direction(batch.sample, world, index) for index, _ in enumerate(batch.rows)]
        moving = tuple(torch.stack([direction[at] for direction in directions]) for at in batch.sample.active)
        compute = partial(_pushed, places=places, moving=moving)
        expected = _tangents(batch, places, directions)
        found.append(BatchComparison(batch, compute, expected, f"{batch}: tangent inside the batch, {OF_OUTPUT}"))
    expect_batches(found)


def _pushed(batch: Batch, places: tuple[int, ...], moving: Tensors) -> Tensors:
    def one(values: Values, *direction: torch.Tensor) -> Any:
        function, primals = _of_active(batch.sample, places, values)
        return torch.func.jvp(function, primals, direction)[1]

    return batch.map(one, extra=moving)  # type: ignore[no-any-return]


@clause("Function.vmap.batched")
def test_tangents_through_a_batch(subject: Subject, world: World) -> None:
    """The tangents of a whole batch are those of its samples."""
    need(subject.defines("jvp"), NO_JVP)
    found = []
    for batch, places in _differentiable(subject, world):
        own = [drawn_direction(batch.sample, world, index) for index, _ in enumerate(batch.rows)]
        moving = Batch(
            batch.sample,
            {at: dim for at, dim in batch.in_dims.items() if at in batch.sample.active},
            tuple({at: (d if at in batch.in_dims else own[0])[at] for at in d} for d in own),
        )
        compute = partial(_whole, places=places, moving=moving)
        expected = _tangents(batch, places, moving.rows)
        found.append(BatchComparison(batch, compute, expected, f"{batch}: tangent through the batch, {OF_OUTPUT}"))
    expect_batches(found)


def _whole(batch: Batch, places: tuple[int, ...], moving: Batch) -> Tensors:
    def function(*active: torch.Tensor) -> Tensors:
        values = {**batch.whole, **dict(zip(batch.sample.active, active, strict=True))}
        return _at(places, batch.map(partial(outputs, batch.sample), values))

    primals = tuple(batch.whole[at] for at in batch.sample.active)
    tangent = tuple(moving.whole[at] for at in batch.sample.active)
    return torch.func.jvp(function, primals, tangent)[1]  # type: ignore[no-any-return]


def _differentiable(subject: Subject, world: World) -> Iterator[tuple[Batch, tuple[int, ...]]]:
    """Batches whose samples have outputs that can be differentiated, and which outputs those are."""
    found = False
    for batch in batches(subject, world, few=True):
        places = batch.sample.run().places
        if places:
            found = True
            yield batch, places
    need(found, "no output of any sample requires grad")


def _at(places: tuple[int, ...], results: Tensors) -> Tensors:
    """The differentiable ones of the tensors that a batch gave."""
    expect.that(len(results) > max(places), "tensors that a batch gives", len(results), f"at least {max(places) + 1}")
    return tuple(results[place] for place in places)


def _of_active(sample: SampleCall, places: tuple[int, ...], values: Values) -> tuple[Callable[..., Tensors], Tensors]:
    """The differentiable outputs as a function of the differentiable inputs, and the values of those."""

    def function(*active: torch.Tensor) -> Tensors:
        results = outputs(sample, {**values, **dict(zip(sample.active, active, strict=True))})
        return _at(places, results)

    return function, tuple(values[at] for at in sample.active)


def _gradients(batch: Batch, world: World) -> tuple[list[list[torch.Tensor]], Tensors]:
    """Return the gradients of the inputs, sample by sample, and the incoming gradients that they are for, stacked."""
    runs = [batch.sample.having(dict(values)).run() for values in batch.rows]
    weights = [run.cotangents(world, index) for index, run in enumerate(runs)]
    gradients = [run.filled(run.gradients(weight)) for run, weight in zip(runs, weights, strict=True)]
    return gradients, tuple(torch.stack(parts) for parts in zip(*weights, strict=True))


def _tangents(batch: Batch, places: tuple[int, ...], directions: Any) -> list[Tensors]:
    pairs = zip(batch.rows, directions, strict=True)
    every = [tangents(batch.sample.having(dict(values)), direction) for values, direction in pairs]
    return [tuple(found[place] for place in places) for found in every]
