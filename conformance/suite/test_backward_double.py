"""Differentiating the gradient again: right, or refused."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from conformance.kit import expect
from conformance.kit.calls import Run, SampleCall, differentiated, in_double
from conformance.kit.deviations import need
from conformance.kit.gradients import grads_kept
from conformance.kit.graph import functions_behind
from conformance.kit.marks import clause
from conformance.kit.numerics.gradient_checks import expect_derivative
from conformance.kit.numerics.nearby import direction, nearby
from conformance.kit.numerics.slopes import Comparison, compare, epsilon, inner, paired, reach
from conformance.kit.numerics.triangles import kept_symmetric
from conformance.kit.observation import collectives
from conformance.kit.subject import Subject
from conformance.kit.world import World

REPEATED = "the gradient is wrong, and the second derivative is made with it; see Function.backward.gradient"


@clause("Function.backward.double")
def test_second_derivative_is_right_or_refused(subject: Subject, world: World) -> None:
    """Differentiating the gradient again raises, or gives what differences of the gradient say."""
    need(not subject.is_typed, "its types say what a second derivative is, and Collective.backward.twice judges it")
    told = 0
    for sample in [in_double(sample) for sample, _ in differentiated(subject, world)]:
        for point in nearby(sample, world):
            second = _Second.of(point, world)
            refused = any(world.exchange(second.refused))
            findings = [] if refused else second.findings(world, inputs=subject.gradient_kind != "declared")
            for group, finding in findings:
                wrong = finding.verdict == "differs"
                need(not (wrong and _goes_through_a_wrong_gradient(second, world)), REPEATED)
                expect.that(
                    not wrong,
                    f"second derivative of {point.label}: slope of its gradients along {group}, "
                    "which no error announced",
                    f"{finding.analytic:.9g} by differentiating twice",
                    f"{finding.by_differences} by differences of the gradients",
                    _collectives_in_backward(second) if wrong else "",
                )
            told += refused or any(finding.verdict == "agrees" for _, finding in findings)
            if all(finding.verdict == "agrees" for _, finding in findings):
                break
    need(told, "not smooth enough near any sample for differences to tell a second derivative")


def _goes_through_a_wrong_gradient(second: _Second, world: World) -> bool:
    """Tell whether the gradient itself is wrong and backward depends on it, for example because it saved a result."""
    behind_gradients, behind_results = functions_behind(second.first), functions_behind(second.run.result)
    if not any(world.exchange(bool(set(behind_gradients) & set(behind_results)))):
        return False
    point = second.run.sample
    if point.subject.gradient_kind != "numeric":
        return False
    return world.try_call(expect_derivative, point, world, is_explained=False) is None


def _collectives_in_backward(second: _Second) -> str:
    """Name the collectives that backward starts, if there are any: their plain forms have no gradient."""
    run = second.run.sample.run()
    with collectives.counted() as started:
        run.gradients([cotangent.detach() for cotangent in second.cotangents])
    return f"backward starts {', '.join(dict.fromkeys(started))}, which autograd may not see" if started else ""


@dataclass(frozen=True)
class _Second:
    """A point, the gradients there as a loss, and the gradients of that loss; ``refused`` if that raised."""

    run: Run
    cotangents: list[torch.Tensor]
    weights: list[torch.Tensor]
    #: The gradients, with their graph.
    first: list[torch.Tensor]
    gradients: dict[int, torch.Tensor | None]
    pulled: list[torch.Tensor | None]
    refused: bool

    @classmethod
    def of(cls, point: SampleCall, world: World) -> _Second:
        plain = point.run()
        plain.gradients(plain.cotangents(world))  # what raises here refuses the first derivative, and that is an error
        run = point.run()
        cotangents = [cotangent.requires_grad_() for cotangent in run.cotangents(world)]
        leaves = list(run.leaves.values())
        weights = [world.tensor(world.rank, tuple(x.shape), x.dtype, "weight", at) for at, x in enumerate(leaves)]
        try:
            first = run.filled(run.gradients(cotangents, create_graph=True))
            with grads_kept(run.values[at] for at in point.of_modules):
                found = _pulled(first, weights, [*leaves, *cotangents])
        except Exception:
            return cls(run, cotangents, weights, [], {}, [], True)
        by_input = dict(zip(run.leaves, found, strict=False))
        return cls(run, cotangents, weights, first, by_input, found[len(leaves) :], False)

    def findings(self, world: World, inputs: bool) -> list[tuple[str, Comparison]]:
        """Compute slopes by differences along all inputs, and along all incoming gradients."""
        point, still = self.run.sample, [torch.zeros_like(cotangent) for cotangent in self.cotangents]
        drawn = {at: direction(world, point.values[at].detach(), "input", at) for at in self.run.leaves}
        steps = {at: kept_symmetric(self.run, at, move, self.gradients.get(at)) for at, move in drawn.items()}
        along = [direction(world, cotangent.detach(), "cotangent", at) for at, cotangent in enumerate(self.cotangents)]
        groups: list[tuple[str, dict[int, torch.Tensor], list[torch.Tensor]]] = [("its incoming gradients", {}, along)]
        if inputs:
            groups.append(("its inputs", steps, still))
        return [(name, self._finding(world, moves, turns)) for name, moves, turns in groups]

    def _finding(self, world: World, moves: dict[int, torch.Tensor], turns: list[torch.Tensor]) -> Comparison:
        slope = sum(inner(self.gradients[at], move) for at, move in moves.items())
        slope += sum(inner(pulled, turn) for pulled, turn in zip(self.pulled, turns, strict=True))

        def loss(step: float) -> torch.Tensor:
            point = self.run.sample
            run = point.having({at: point.values[at].detach() + step * move for at, move in moves.items()}).run()
            turned = [c.detach() + step * turn for c, turn in zip(self.cotangents, turns, strict=True)]
            return paired(self.weights, run.filled(run.gradients(turned)))

        far = reach(self.weights, [*moves.values(), *turns])
        return compare(world, loss, slope, epsilon([*self.weights, *self.cotangents]), far)


def _pulled(
    first: list[torch.Tensor], weights: list[torch.Tensor], inputs: list[torch.Tensor]
) -> list[torch.Tensor | None]:
    """The gradients of a loss made of the first gradients, as in a gradient penalty; what is cut off counts as zero."""
    loss = sum((weight.conj() * gradient).real.sum() for weight, gradient in zip(weights, first, strict=True))
    assert isinstance(loss, torch.Tensor)
    if not loss.requires_grad:
        return [None] * len(inputs)
    # Not torch.autograd.grad: it would skip the node that refuses, since no requested gradient is behind it.
    torch.autograd.backward(loss)
    return [tensor.grad for tensor in inputs]
