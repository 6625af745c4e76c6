"""``backward`` as mathematics: each value it returns is a derivative."""

from __future__ import annotations

from functools import partial

import torch

from conformance.kit import (
    Deviation,
    Probe,
    Run,
    SampleCall,
    Skipped,
    Subject,
    World,
    cases,
    clause,
    differentiated,
    expect,
    in_double,
    is_strided,
    many,
    need,
    seeds,
    tolerances,
)
from conformance.kit.calls import BACKWARD_SEED, grads_kept
from conformance.kit.copies import given_copy
from conformance.kit.graph import leaves_behind
from conformance.kit.numerics.derivatives import OTHER_GRADIENT, SURROGATE
from conformance.kit.numerics.formula import declared_gradients
from conformance.kit.numerics.gradient_checks import expect_derivative, expect_derivative_of_parameters, gradients_of
from conformance.kit.numerics.slopes import epsilon
from conformance.kit.observation.ctx_tensors import named_tensors_in
from conformance.kit.observation.looks import backwards, look_at
from conformance.kit.observation.returned import explained
from conformance.kit.oracles import formula, reference
from conformance.kit.oracles.sample import JudgedInput, judged_inputs, said_of, takes_half_alone
from conformance.kit.sample_calls import differentiate
from conformance.kit.tensors import dense
from conformance.kit.tolerances import SINGLE
from conformance.kit.variations.choices import has_surrogate
from conformance.kit.variations.variants import JUDGED_BY_SPEC, draws, with_distinct_values, worst_error

#: What a gradient in a leaf may come from that is not added up once.
MEDDLED = "backward writes to .grad itself, as an inner backward pass does, or returns a tensor that it found there"
#: What to do about tensors that are not arguments of their own.
IN_AN_OBJECT = "held by an object; pass tensors in a tuple, list or dict, and make the object in call="


@clause("Function.backward.gradient")
def test_gradient_is_the_derivative(subject: Subject, world: World) -> str:
    """The gradient of every input is the derivative, to the required resolution, by an oracle that reaches it."""
    need(subject.gradient_kind != "spec", JUDGED_BY_SPEC)
    need(subject.gradient_kind == "numeric", "its gradient is a declared one")
    with explained(subject, world, "backward", differentiate):
        found = differentiated(subject, world)
        _expect_recorded([run for _, run in found])
        samples = [in_double(sample) for sample, _ in found]
        by_differences = [
            wide for wide, (sample, _) in zip(samples, found, strict=True) if not _is_the_reference(sample, world)
        ]
        for sample in by_differences:
            if not takes_half_alone(sample):  # the steps that such rounding asks for hide a doubled gradient
                _expect_derivative(sample, world)
        of_modules = [expect_derivative_of_parameters(sample, world) for sample in samples]
        for apart in (with_distinct_values(sample, world) for sample in by_differences):
            if apart:
                _expect_derivative(apart, world)
        judged = _judged([sample for sample, _ in found], world)
        for one in judged:
            world.note(one.name, one.judgement)
        for one in judged:
            if one.judgement.is_gross:
                expect.agrees(one.judgement, f"gradient of {one.name}")
    left = [sample.name(at) for sample, own in zip(samples, of_modules, strict=True) for at in own if not own[at]]
    said = f"gradient of {', '.join(left)} not judged: it belongs to a module that is an argument too" if left else ""
    return "; ".join(filter(None, [said, _said_of(judged, samples, world)]))


def _said_of(judged: list[JudgedInput], samples: list[SampleCall], world: World) -> str:
    """Describe a pass; where nothing was judged since forward rounds, say what that looks like."""
    try:
        return said_of(judged)
    except Skipped as ended:
        fine = [one for one in samples if epsilon([one.values[at] for at in one.active]) < SINGLE]
        # On several ranks, calls of one rank alone would wait for the others.
        if world.size > 1 or not any(world.try_call(has_surrogate, sample, world) for sample in fine):
            raise
        raise Skipped(f"{str(ended).partition(' not judged')[0]} not judged: it looks like {SURROGATE}") from ended


def _expect_derivative(sample: SampleCall, world: World) -> None:
    try:
        expect_derivative(sample, world)
    except Deviation as error:
        error.likely = error.likely or OTHER_GRADIENT
        raise


@clause("Function.backward.gradient")
def test_no_gradient_goes_to_a_tensor_in_an_object(probe: Probe) -> None:
    """The gradient of a tensor that an object among the arguments holds is not compared with anything."""
    need(probe.sample.subject.gradient_kind != "spec", JUDGED_BY_SPEC)
    reached = {id(leaf) for leaf in leaves_behind(probe.sample.run().outputs)}
    held = [
        f"{probe.sample.names[at]}{way} of {probe.label}"
        for at, value in enumerate(probe.sample.values)
        if not isinstance(value, torch.Tensor)
        for way, tensor in named_tensors_in(value)
        if id(tensor) in reached
    ]
    need(held, "no object among the arguments holds a tensor that the results depend on")
    raise Skipped(f"gradient of {', '.join(held)} not judged: {IN_AN_OBJECT}")


@clause("Function.backward.gradient")
def test_a_sparse_gradient_has_each_index_once_if_it_says_so(subject: Subject, world: World) -> None:
    """A sparse gradient that says that it is coalesced has no index twice: optimizers believe it."""
    returned = [many(backward.returned) for _, _, backward in backwards(look_at(subject, world))]
    found = [one for values in returned for one in values if _is_coalesced(one)]
    need(found, "backward returned no sparse tensor that says so")
    for one in found:
        indices = one.indices()
        is_unique = indices.unique(dim=1).shape == indices.shape
        expect.that(
            is_unique, "indices of a sparse gradient, coalesced as it says", indices.tolist(), "each index once"
        )


def _is_coalesced(value: object) -> bool:
    return isinstance(value, torch.Tensor) and value.layout is torch.sparse_coo and value.is_coalesced()


@clause("Function.backward.exact")
def test_gradient_is_exact(subject: Subject, world: World) -> None:
    """The same judgements, of errors that are too small for the test above."""
    need(subject.gradient_kind == "numeric", "its gradient is a declared one, or its spec defines it")
    judged = world.try_call(lambda: _judged([sample for sample, _ in differentiated(subject, world)], world))
    gross = judged is None or any(one.judgement.is_gross for one in judged)
    need(judged and not gross, "the gradient is wrong by more than that, or raises")
    for one in judged or ():
        expect.agrees(one.judgement, f"gradient of {one.name}")


def _judged(samples: list[SampleCall], world: World) -> list[JudgedInput]:
    """Judge the gradients of all inputs of all samples, once for both tests."""
    return [one for each in samples for one in world.once(("judged", each.label), partial(judged_inputs, each, world))]


def _is_the_reference(sample: SampleCall, world: World) -> bool:
    """Whether all gradients of a sample are those of its reference, which need not be derivatives."""
    if sample.subject.reference is None:
        return False
    return all(one.is_seen and one.judgement.oracle == reference.NAME for one in _judged([sample], world))


def _expect_recorded(runs: list[Run]) -> None:
    """Assert that autograd can continue from the results."""
    for run in runs:
        for place, output in zip(run.places, run.outputs, strict=True):
            expect.that(
                not output.is_inference(),
                f"output {place} of {run.sample.label}",
                "an inference tensor: what is computed from it has no gradient",
                "a tensor that autograd records",
            )


@clause("Function.backward.gradient")
def test_gradient_is_the_declared_one(probe: Probe) -> None:
    """The gradient of every input equals the subject's formula, with the same random numbers."""
    kind = probe.sample.subject.gradient_kind
    need(kind != "spec", JUDGED_BY_SPEC)
    need(kind == "declared", "no formula is declared: the gradient is judged by differences")
    actual = dict(zip(probe.run.leaves, probe.gradients, strict=True))
    precision = probe.epsilon_inside
    for at, right in declared_gradients(probe.run, probe.cotangents).items():
        what = f"gradient of {probe.name(at)}, compared with the declared formula"
        expect.close(actual[at], right, f"{what},", precision=precision)
        judgement = formula.judged_by_formula(actual[at], right, precision)
        probe.world.note(probe.name(at), judgement)
        expect.agrees(judgement, what)


@clause("Function.backward.gradient")
def test_gradient_is_linear_in_the_incoming_ones(probe: Probe) -> None:
    """The gradients of single outputs add up to the gradient of all."""
    sample, world = in_double(probe.sample), probe.world
    need(sample.subject.gradient_kind != "spec", JUDGED_BY_SPEC)
    need(sample.subject.gradient_kind == "numeric", "its gradient is a declared one")
    # Asked first: calls in between would be a matter of forward.calls-independent.
    need(not draws(sample, world), "it draws random numbers, or takes half precision alone")
    run = sample.run()
    is_fine = epsilon([*run.outputs, *run.leaves.values()]) <= SINGLE
    need(is_fine, "it draws random numbers, or takes half precision alone")
    need(len(run.outputs) > 1, "it has one output")
    cotangents = run.cotangents(world)
    plain = run.filled(run.gradients(cotangents))
    alone = [gradients_of(sample, others) for others in _one_at_a_time(cotangents)]
    _expect_linear(run, [sum(each) for each in zip(*alone, strict=True)], plain)


@clause("Function.backward.gradient")
@cases(before=["none", "a gradient of an earlier pass"])
def test_gradient_is_added_to_the_one_that_is_there(probe: Probe, before: str) -> None:
    """A backward pass adds its gradient, once, to what the grad of a leaf holds, as every training loop counts on."""
    need(probe.sample.subject.gradient_kind != "spec", JUDGED_BY_SPEC)
    refused = "it draws random numbers, or accepts no strided leaves that require grad"
    need(not probe.draws and all(map(is_strided, probe.run.leaves.values())), refused)
    held = {at: torch.full_like(leaf, 3.0) for at, leaf in probe.run.leaves.items()} if before != "none" else {}
    actual = probe.unless_refused(refused, _accumulated, probe.sample, probe.cotangents, held)
    need(any(one is not None for one in actual), refused)
    for (at, leaf), one, gradient in zip(probe.run.leaves.items(), actual, probe.gradients, strict=True):
        right = (held.get(at, 0) + gradient).detach()
        what = f"grad of {probe.name(at)}, a leaf, after a backward pass; it held {before} before"
        expect.close(torch.zeros_like(leaf) if one is None else dense(one), right, what, likely=MEDDLED)


def _accumulated(
    sample: SampleCall, cotangents: list[torch.Tensor], held: dict[int, torch.Tensor]
) -> list[torch.Tensor | None]:
    """Return the grad of each leaf after a backward pass, in a call with the leaves themselves."""
    leaves = {at: sample.values[at].detach().clone().requires_grad_() for at in sample.active}
    for at, gradient in held.items():
        leaves[at].grad = gradient.clone()
    values = [leaves.get(at, value) for at, value in enumerate(sample.plain)]
    with grads_kept(sample.values[at] for at in sample.of_modules):
        run = sample.called_with(values, leaves)
        seeds.seed(BACKWARD_SEED, sample.holders)
        torch.autograd.backward(run.outputs, [given_copy(cotangent) for cotangent in cotangents])
    return [leaf.grad for leaf in leaves.values()]


def _one_at_a_time(cotangents: list[torch.Tensor]) -> list[list[torch.Tensor]]:
    """The gradients of the outputs, with zeros in place of all but one; for each of them."""
    places = range(len(cotangents))
    return [[one if at == kept else torch.zeros_like(one) for at, one in enumerate(cotangents)] for kept in places]


def _expect_linear(run: Run, actual: list[torch.Tensor], right: list[torch.Tensor]) -> None:
    if not all(bool(gradient.isfinite().all()) for gradient in right):
        return  # beyond the range of the dtype, or of the function
    gap, place = worst_error(actual, right)
    name = f"gradient of {run.sample.name(list(run.leaves)[place])}, each output alone, added up"
    one, other = expect.shown_apart(actual[place], right[place])
    expected = f"{other}, because a gradient is linear in the incoming gradients"
    expect.that(gap <= tolerances.LINEAR_GRADIENTS, name, one, expected)
