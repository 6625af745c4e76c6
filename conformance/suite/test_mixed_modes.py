"""Forward mode and reverse mode together: the derivative of one by the other."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch.autograd import forward_ad

from conformance.kit import NO_JVP, NotApplicable, Probe, SampleCall, World, clause, expect, in_double, is_strided, need
from conformance.kit.numerics.nearby import drawn_direction, moved_along, points_near
from conformance.kit.numerics.slopes import SlopeJudgement, compare_slope, epsilon, inner, jacobian_scale, paired
from conformance.kit.variations.transforms import Direction, outputs, tangents
from conformance.kit.variations.variants import draws

#: Compares a slope by one mode over the other with differences.
Compare = Callable[[], SlopeJudgement]


@clause("Function.backward.mixed-modes")
def test_gradient_of_a_tangent_is_right_or_refused(probe: Probe) -> None:
    """The gradient of a tangent agrees with finite differences of the tangent, or an error is raised."""
    _expect_right(probe, _backward_over_jvp, "gradient of the tangents", "backward over jvp", "the tangents")


@clause("Function.backward.mixed-modes")
def test_tangent_of_a_gradient_is_right_or_refused(probe: Probe) -> None:
    """The tangent of a gradient, as in a Hessian, agrees with finite differences, or an error is raised."""
    _expect_right(probe, _jvp_over_backward, "tangent of the gradients", "jvp over backward", "the gradients")


def _expect_right(
    probe: Probe, derivative: Callable[[SampleCall, World], Compare], what: str, modes: str, differenced: str
) -> None:
    subject, sample, world = probe.sample.subject, in_double(probe.sample), probe.world
    need(subject.function is None or subject.defines("jvp"), NO_JVP)
    is_plain = all(is_strided(sample.values[at]) for at in sample.active)
    need(not draws(sample, world) and is_plain, "it draws random numbers, or takes tensors without strides")
    for point in points_near(sample, world):
        seen = probe.unless_refused("combining the two modes raises an error", derivative, point, world)()
        expect.that(
            seen.verdict != "differs",
            f"{what} of {point.label}, along a random direction",
            f"{seen.analytic:.9g} by {modes}",
            f"{seen.by_differences}, by differences of {differenced}",
        )
        if seen.verdict == "agrees":
            return
    raise NotApplicable("not smooth enough near any sample for finite differences")


def _backward_over_jvp(point: SampleCall, world: World) -> Compare:
    """The slope of a loss made of the tangents of all outputs, by its gradients: of inputs, and of their tangents."""
    along, steps = drawn_direction(point, world, "tangent"), drawn_direction(point, world, "input")
    turns = {} if _communicates(point, world) else drawn_direction(point, world, "turn")
    leaves = [point.values[at].detach().clone().requires_grad_() for at in along]
    turning = {at: along[at].clone().requires_grad_() for at in turns}
    with forward_ad.dual_level():
        moving = {**along, **turning}
        duals = {
            at: forward_ad.make_dual(leaf.clone(), moving[at].clone()) for at, leaf in zip(along, leaves, strict=True)
        }
        parts = [forward_ad.unpack_dual(output) for output in outputs(point, duals)]
        found = [torch.zeros_like(part.primal) if part.tangent is None else part.tangent for part in parts]
        weights = [world.tensor(world.rank, tuple(t.shape), t.dtype, "weight", at) for at, t in enumerate(found)]
        loss = sum((weight.conj() * tangent).real.sum() for weight, tangent in zip(weights, found, strict=True))
        assert isinstance(loss, torch.Tensor)
        every = [*leaves, *turning.values()]
        gradients = torch.autograd.grad(loss, every, allow_unused=True) if loss.requires_grad else ()
    ways = [*steps.values(), *turns.values()]
    slope = sum(map(inner, gradients, ways))

    def loss_at(step: float) -> torch.Tensor:
        return paired(weights, list(tangents(moved_along(point, steps, step), _turned(along, turns, step))))

    scale = jacobian_scale(weights, [*along.values(), *ways])
    return partial(compare_slope, world, loss_at, slope, epsilon(weights), scale)


def _turned(direction: Direction, turns: Direction, step: float) -> Direction:
    return {at: tangent + step * turns[at] if at in turns else tangent for at, tangent in direction.items()}


def _communicates(point: SampleCall, world: World) -> bool:
    """Whether jvp and backward may add up what they are given by an operation that neither mode sees."""
    return world.size > 1 or point.subject.is_typed or point.subject.gathers


def _jvp_over_backward(point: SampleCall, world: World) -> Compare:
    """The slope of a loss made of the gradients of all inputs, by their tangents; incoming gradients move as well."""
    along, weights = drawn_direction(point, world, "tangent"), list(drawn_direction(point, world, "input").values())
    run = point.run()
    cotangents, turns = run.cotangents(world), [] if _communicates(point, world) else run.cotangents(world, "turn")
    slope = sum(map(inner, _tangents_of_the_gradients(point, along, cotangents, turns), weights))

    def loss_at(step: float) -> torch.Tensor:
        run = moved_along(point, along, step).run()
        moved = [one + step * turn for one, turn in zip(cotangents, turns, strict=bool(turns))]
        return paired(weights, run.filled(run.gradients(moved or cotangents)))

    scale = jacobian_scale(weights, [*along.values(), *turns])
    return partial(compare_slope, world, loss_at, slope, epsilon(weights), scale)


def _tangents_of_the_gradients(
    sample: SampleCall, along: Direction, cotangents: list[torch.Tensor], turns: list[torch.Tensor]
) -> list[torch.Tensor]:
    """The tangent of every input's gradient, if inputs and incoming gradients move along a direction."""
    leaves = {at: sample.values[at].detach().clone().requires_grad_() for at in along}
    with forward_ad.dual_level():
        duals = {at: forward_ad.make_dual(leaf, along[at]) for at, leaf in leaves.items()}
        found = [output for output in outputs(sample, duals) if output.requires_grad]
        pairs = zip(cotangents, turns, strict=bool(turns))
        incoming = [forward_ad.make_dual(one.clone(), turn) for one, turn in pairs] or cotangents
        gradients = torch.autograd.grad(found, list(duals.values()), incoming, create_graph=True, allow_unused=True)
        parts = [None if gradient is None else forward_ad.unpack_dual(gradient).tangent for gradient in gradients]
        own = zip(parts, leaves.values(), strict=True)
        return [torch.zeros_like(leaf) if part is None else part.detach().clone() for part, leaf in own]
