"""Forward mode and reverse mode together: the derivative of one by the other."""

from __future__ import annotations

from functools import partial

import torch
from torch.autograd import forward_ad

from conformance.kit import expect
from conformance.kit.calls import SampleCall, differentiated, in_double
from conformance.kit.deviations import need
from conformance.kit.marks import clause
from conformance.kit.numerics.nearby import direction, nearby
from conformance.kit.numerics.slopes import compare, epsilon, inner, paired, reach
from conformance.kit.subject import Subject
from conformance.kit.tensors import is_strided
from conformance.kit.variations.transforms import Direction, outputs, tangents
from conformance.kit.variations.variants import draws
from conformance.kit.world import World


@clause("Function.backward.mixed-modes")
def test_gradient_of_a_tangent_is_right_or_refused(subject: Subject, world: World) -> None:
    """Differentiating a tangent backward gives what differences of the tangent say, or an error comes."""
    need(subject.function is None or subject.defines("jvp"), "the class defines no jvp")
    told = 0
    for sample in [in_double(sample) for sample, _ in differentiated(subject, world)]:
        if draws(sample, world) or not all(is_strided(sample.values[at]) for at in sample.active):
            continue
        for point in nearby(sample, world):
            along, steps = _directions(point, world, "tangent"), _directions(point, world, "input")
            found = world.try_call(_gradients_of_the_tangents, point, along, world)
            if found is None:
                break
            weights, gradients = found
            slope = sum(inner(gradient, steps[at]) for at, gradient in gradients.items())
            loss = partial(_loss_of_tangents, point, along, weights, steps)
            far = reach(weights, [*along.values(), *steps.values()])
            seen = compare(world, loss, slope, epsilon(weights), far)
            expect.that(
                seen.verdict != "differs",
                f"gradient of the tangents of {point.label}, along a random direction",
                f"{seen.analytic:.9g} by backward over jvp",
                f"{seen.by_differences}, by differences of the tangents",
            )
            told += seen.verdict == "agrees"
            if seen.verdict == "agrees":
                break
    need(told, "one mode over the other is refused, or not smooth enough near any sample for differences to tell")


def _directions(point: SampleCall, world: World, key: str) -> dict[int, torch.Tensor]:
    return {at: direction(world, point.values[at].detach(), key, at) for at in point.active}


def _moved(point: SampleCall, steps: Direction, step: float) -> SampleCall:
    return point.having({at: point.values[at].detach() + step * steps[at] for at in point.active})


def _loss_of_tangents(
    point: SampleCall, along: Direction, weights: list[torch.Tensor], steps: Direction, step: float
) -> torch.Tensor:
    return paired(weights, list(tangents(_moved(point, steps, step), along)))


def _loss_of_gradients(
    point: SampleCall, world: World, weights: list[torch.Tensor], along: Direction, step: float
) -> torch.Tensor:
    run = _moved(point, along, step).run()
    return paired(weights, run.filled(run.gradients(run.cotangents(world))))


def _gradients_of_the_tangents(
    sample: SampleCall, along: Direction, world: World
) -> tuple[list[torch.Tensor], dict[int, torch.Tensor | None]]:
    """The weights of a loss made of the tangents of all outputs, and its gradients."""
    leaves = {at: sample.values[at].detach().clone().requires_grad_() for at in along}
    with forward_ad.dual_level():
        duals = {at: forward_ad.make_dual(leaf.clone(), along[at]) for at, leaf in leaves.items()}
        parts = [forward_ad.unpack_dual(output) for output in outputs(sample, duals)]
        found = [torch.zeros_like(part.primal) if part.tangent is None else part.tangent for part in parts]
        weights = [world.tensor(world.rank, tuple(t.shape), t.dtype, "weight", at) for at, t in enumerate(found)]
        loss = sum((weight.conj() * tangent).real.sum() for weight, tangent in zip(weights, found, strict=True))
        assert isinstance(loss, torch.Tensor)
        gradients = torch.autograd.grad(loss, list(leaves.values()), allow_unused=True) if loss.requires_grad else ()
    return weights, dict(zip(leaves, gradients or [None] * len(leaves), strict=True))


@clause("Function.backward.mixed-modes")
def test_tangent_of_a_gradient_is_right_or_refused(subject: Subject, world: World) -> None:
    """Differentiating a gradient forward, as a Hessian does, gives what differences of it say, or an error comes."""
    need(subject.function is None or subject.defines("jvp"), "the class defines no jvp")
    told = 0
    for sample in [in_double(sample) for sample, _ in differentiated(subject, world)]:
        if draws(sample, world) or not all(is_strided(sample.values[at]) for at in sample.active):
            continue
        for point in nearby(sample, world):
            along, weights = _directions(point, world, "tangent"), list(_directions(point, world, "input").values())
            found = world.try_call(_tangents_of_the_gradients, point, along, world)
            if found is None:
                break
            slope = sum(inner(tangent, weight) for tangent, weight in zip(found, weights, strict=True))
            loss = partial(_loss_of_gradients, point, world, weights, along)
            seen = compare(world, loss, slope, epsilon(weights), reach(weights, along.values()))
            expect.that(
                seen.verdict != "differs",
                f"tangent of the gradients of {point.label}, along a random direction",
                f"{seen.analytic:.9g} by jvp over backward",
                f"{seen.by_differences}, by differences of the gradients",
            )
            told += seen.verdict == "agrees"
            if seen.verdict == "agrees":
                break
    need(told, "one mode over the other is refused, or not smooth enough near any sample for differences to tell")


def _tangents_of_the_gradients(sample: SampleCall, along: Direction, world: World) -> list[torch.Tensor]:
    """The tangent of every input's gradient, if the inputs move along a direction."""
    leaves = {at: sample.values[at].detach().clone().requires_grad_() for at in along}
    cotangents = sample.run().cotangents(world)
    with forward_ad.dual_level():
        duals = {at: forward_ad.make_dual(leaf, along[at]) for at, leaf in leaves.items()}
        found = [output for output in outputs(sample, duals) if output.requires_grad]
        gradients = torch.autograd.grad(found, list(duals.values()), cotangents, create_graph=True, allow_unused=True)
        parts = [None if gradient is None else forward_ad.unpack_dual(gradient).tangent for gradient in gradients]
        pairs = zip(parts, leaves.values(), strict=True)
        return [torch.zeros_like(leaf) if part is None else part.detach().clone() for part, leaf in pairs]
