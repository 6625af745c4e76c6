"""Derivatives of derivatives, tangents and batches in variations of the samples."""

from __future__ import annotations

from functools import partial

import torch

from conformance.kit import (
    NO_JVP,
    WRITES_INTO_GRADIENTS,
    Deviation,
    NotApplicable,
    Probe,
    SampleCall,
    World,
    cases,
    clause,
    expect,
    need,
    varies,
)
from conformance.kit.judged import is_derivative, need_numeric, need_right
from conformance.kit.numerics.gradient_checks import expect_derivative
from conformance.kit.numerics.nearby import drawn_direction
from conformance.kit.numerics.precision import working_epsilon
from conformance.kit.numerics.slopes import inner, rounding_of_slopes
from conformance.kit.oracles.gradient import is_negligible
from conformance.kit.oracles.inputs import function_of
from conformance.kit.variations.axis import WHOLE, Variation
from conformance.kit.variations.batches import (
    NO_OUT_DIM,
    Batch,
    InDims,
    batch,
    choices,
    expect_batch,
    given_whole,
    variants,
)
from conformance.kit.variations.layouts import LAYOUTS
from conformance.kit.variations.sizes import LONGER, resized
from conformance.kit.variations.transforms import Tensors, draws_numbers, is_refused, outputs, tangents, vjp
from conformance.kit.variations.variants import in_dtype, size_of
from conformance.kit.variations.ways import works_in_place

COARSE = "inside it computes in a lower precision than its dtypes"


@clause("Function.backward.double")
@varies("size", "number", "choice", "value", "layout", "needs")
def test_second_derivative_of_variations_is_right_or_refused(probe: Probe, variation: Variation) -> None:
    """In every variation, differentiating the gradient again raises, or gives the derivative of the gradient."""
    need_numeric(probe)
    need(not probe.plain.changes("gradient"), WRITES_INTO_GRADIENTS)
    sample = probe.sample_of(variation)
    gradient = vjp(sample, probe.world)
    if not is_refused(gradient):
        need(not probe.epsilon_inside, COARSE)
        try:
            expect_derivative(gradient, probe.world, is_derived=True, is_explained=False)
        except Deviation:
            # Asked last, for each takes longer than the derivative itself.
            need_right(probe, variation)
            need(not working_epsilon(sample, probe.world), COARSE)
            need(not _hardly_matters(sample, probe.world), "its results hardly depend on these inputs")
            raise


def _hardly_matters(sample: SampleCall, world: World) -> bool:
    """Whether gradients are within rounding of zero, as those of a saturated softmax are: their slopes are no less."""
    run = sample.run()
    pairs = list(zip(run.leaves, run.gradients(run.cotangents(world)), strict=True))
    return all(is_negligible(function_of(world, run, at, gradient)) for at, gradient in pairs)


@clause("Function.backward.double")
@varies("as given", "choice")
def test_third_derivative_is_right_or_refused(probe: Probe, variation: Variation) -> None:
    """Differentiating the gradient twice raises, or gives the derivative of the second derivative."""
    need_numeric(probe)
    need(not probe.plain.changes("gradient"), WRITES_INTO_GRADIENTS)
    sample = probe.sample_of(variation)
    gradient = vjp(sample, probe.world)
    need(not is_refused(gradient), "computing a second derivative raises an error")
    second = vjp(gradient, probe.world)
    if not is_refused(second):
        try:
            expect_derivative(second, probe.world, is_derived=True, is_explained=False)
        except Deviation:
            need_right(probe, variation)
            need(not working_epsilon(sample, probe.world), COARSE)
            need(is_derivative(gradient, probe.world), "the second derivative is wrong already, or cannot be judged")
            raise


@clause("Function.jvp.tangent")
@cases(tangent=["contiguous", "transposed in memory"])
@varies("as given", "size", "number", "choice", "value", "layout")
def test_tangents_and_gradients_share_one_jacobian(probe: Probe, variation: Variation, tangent: str) -> None:
    """For a right gradient, an incoming gradient times the tangent is the gradient times the direction."""
    need(probe.sample.subject.defines("jvp"), NO_JVP)
    need(all(pick.at == WHOLE for pick in variation.of("value")), "the two may choose another slope at a kink")
    need_numeric(probe)
    sample, world = probe.sample_of(variation), probe.world
    arrange = LAYOUTS[tangent]
    moves = {at: arrange(move) for at, move in drawn_direction(sample, world, "tangent").items()}
    run = sample.run()
    cotangents = run.cotangents(world)
    gradients = dict(zip(run.leaves, run.filled(run.gradients(cotangents)), strict=True))
    actual = tangents(sample, moves)
    forward = sum(inner(cotangent, actual[at]) for cotangent, at in zip(cotangents, run.places, strict=True))
    backward = sum(inner(gradients[at], move) for at, move in moves.items())
    size = sum(size_of(one) * size_of(actual[at]) for one, at in zip(cotangents, run.places, strict=True))
    is_equal = abs(forward - backward) <= rounding_of_slopes([*actual, *cotangents]) * (abs(backward) + size)
    if not is_equal:
        need_right(probe, variation)
    expect.that(
        is_equal,
        f"tangents of {probe.label}, multiplied with gradients of the outputs, the direction {tangent}",
        f"{forward:.9g} by jvp",
        f"{backward:.9g} by backward",
    )


@clause("Function.vmap.batched")
@cases(size=[1, 2, 9])
@varies("as given", "number", "choice")
def test_batches_of_any_size_equal_their_samples(probe: Probe, variation: Variation, size: int) -> None:
    """A batch of one, two or nine samples gives the same as the samples one by one, with any number and flag."""
    _expect_batches(probe, probe.at(variation).sample, size)


@clause("Function.vmap.batched")
@cases(kind=["float32", "bfloat16", "over a thousand along the last dimension"])
def test_batches_of_other_samples_equal_their_samples(probe: Probe, kind: str) -> None:
    """In other dtypes that the subject accepts, and for long rows, a batch gives the same as the samples one by one."""
    given = probe.sample
    sample = resized(given, kind) if kind == LONGER else in_dtype(given, getattr(torch, kind))
    refused = f"it accepts no sample of the kind {kind}, or every sample is of it already"
    probe.unless_refused(refused, lambda: sample.run() if sample else None)
    need(sample is not None, refused)
    if sample:
        _expect_batches(probe, sample, 2)


def _expect_batches(probe: Probe, sample: SampleCall, size: int) -> None:
    """Expect batches of a sample to give the same as its samples one by one."""
    subject, every = sample.subject, choices(sample)
    need(subject.separate and subject.defines("vmap"), "the class defines no vmap in the separate form")
    need(not draws_numbers(sample) and not works_in_place(sample, probe.world), "it is random, or works in place")
    for in_dims in every[:: max(1, len(every) - 1)]:
        usual = batch(sample, in_dims, variants(sample))
        is_mapped = World().try_call(usual.map, partial(outputs, sample)) is not None
        need(is_mapped, "torch.vmap of three samples raises an error, which another test reports")
        need(not (given_whole(usual) and given_whole(_as_given(probe, in_dims))), NO_OUT_DIM)
        made = batch(sample, in_dims, variants(sample, size))
        expected = [outputs(sample, row) for row in made.rows]
        with expect.no_error(f"{made}, {size} samples", "the results of the samples"):
            actual = _mapped(made)
        expect_batch(actual, expected, f"{made}, {size} samples: output", 0.0)


def _as_given(probe: Probe, in_dims: InDims) -> Batch:
    return batch(probe.sample, in_dims, variants(probe.sample))


def _mapped(made: Batch) -> Tensors:
    """Compute a batch; if the class raises an error, it is not judged."""
    try:
        found: Tensors = made.map(partial(outputs, made.sample))
    except NotImplementedError as error:
        raise NotApplicable(f"it has no rule for such a batch: {error}") from error
    return found
