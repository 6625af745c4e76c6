"""The second derivative is right, or computing it raises an error."""

from __future__ import annotations

from dataclasses import replace

from conformance.kit import (
    WRITES_INTO_GRADIENTS,
    Deviation,
    Probe,
    SampleCall,
    clause,
    differentiable,
    in_double,
    need,
    share_memory,
)
from conformance.kit.graph import contexts_behind, functions_behind
from conformance.kit.numerics.derivatives import SURROGATE
from conformance.kit.numerics.gradient_checks import expect_derivative
from conformance.kit.observation import collectives
from conformance.kit.variations.transforms import is_refused, vjp

REPEATED = "the gradient itself is wrong, and the second derivative uses it; see Function.backward.gradient"


@clause("Function.backward.double")
def test_second_derivative_is_right_or_refused(probe: Probe) -> None:
    """Differentiating the gradient again agrees with finite differences of the gradient, or raises an error."""
    subject, sample, world = probe.sample.subject, in_double(probe.sample), probe.world
    need(not subject.is_typed, "its SPMD types define the second derivative, and Collective.backward.twice judges it")
    first = len(probe.gradients)  # what raises here refuses the first derivative, and that is an error
    need(not any(world.exchange(bool(probe.plain.changes("gradient")))), WRITES_INTO_GRADIENTS)
    gradient = vjp(sample, world)
    if any(world.exchange(is_refused(gradient))):
        return
    is_declared = subject.gradient_kind == "declared"
    if is_declared:  # which need be no derivative by the inputs
        gradient = replace(gradient, active=gradient.active[first:])
    try:
        told = expect_derivative(replace(gradient, label=f"the gradient of {sample.label}"), world, is_derived=True)
    except Deviation as error:
        need(not _goes_through_a_wrong_gradient(probe, sample, gradient), REPEATED)
        need(not (is_declared and error.likely == SURROGATE), "its declared gradient is a step function")
        error.likely = _collectives_in_backward(probe) or error.likely
        error.likely = error.likely or world.try_call(_without_a_graph, sample, error) or ""
        raise
    need(any(told.values()), "not smooth enough near the sample to measure a second derivative by finite differences")


def _goes_through_a_wrong_gradient(probe: Probe, sample: SampleCall, gradient: SampleCall) -> bool:
    """Tell whether the gradient itself is wrong and backward depends on it, for example because it saved a result."""
    behind = [functions_behind(call.run().result) for call in (gradient, sample)]
    if not any(probe.world.exchange(bool(set(behind[0]) & set(behind[1])))):
        return False
    if sample.subject.gradient_kind != "numeric":
        return False
    return probe.world.try_call(expect_derivative, sample, probe.world, is_explained=False) is None


def _collectives_in_backward(probe: Probe) -> str:
    """Name the collectives that backward starts, if there are any: their plain forms have no gradient."""
    run = probe.sample.run()
    with collectives.counted() as started:
        run.gradients(probe.cotangents)
    return f"backward starts {', '.join(dict.fromkeys(started))}, which autograd may not see" if started else ""


def _without_a_graph(sample: SampleCall, error: Deviation) -> str:
    """Name what autograd takes for a constant: a saved tensor that is no argument and no output, or a detached one."""
    run = sample.run()
    saved = [tensor for context in contexts_behind(run.result) for tensor in context.saved_tensors]
    constants = [one for one in saved if differentiable(one) and not one.requires_grad]
    if any(not any(share_memory(one, value) for value in run.values) for one in constants):
        return (
            "backward reads a result of forward that is neither an input nor an output, and so a constant: compute it "
            "in backward again, or decorate backward with once_differentiable"
        )
    is_lost = str(error.actual).startswith("None")
    return "backward reads this input without a graph, as under no_grad or detached" if is_lost else ""
