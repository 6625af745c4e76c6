"""Collective, backward: results that not every rank uses, and the gradient of the gradient."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence

import torch

from conformance.core.signatures import Signature, Type
from conformance.kit import Deviation, Subject, World, all_ranks, clause, deadline, expect, need, ranks, world_group
from conformance.kit.observation.collectives import counted
from conformance.kit.spmd.claims import Claim, claims, kept_of, signature_of
from conformance.kit.spmd.observation import Observation, differs
from conformance.kit.spmd.owed import GroupCall, Slopes, backward, loss_slopes
from conformance.kit.spmd.reasons import problem
from conformance.kit.spmd.tensor_calls import TensorCall
from conformance.kit.spmd.wrong_gradients import need_right_gradient
from conformance.kit.tensors import to_double
from conformance.kit.typed_values import cotangent

#: The types that the gradient of a tensor may have. Of a share of a sum it is the same on every rank: R or I.
GRADIENT_TYPES = {Type.R: (Type.P,), Type.I: (Type.I,), Type.V: (Type.V,), Type.P: (Type.R, Type.I)}
#: Message of a rank whose gradient cannot be differentiated because it is a constant.
NO_GRAPH = "no gradient has a graph"
#: Gloo writes a result beside autograd, which notices or not, on each rank anew: so often ranks are to be at odds.
TIMES = 3


@clause("Collective.backward.unused")
@ranks(2, 3)
@deadline(10)
def test_ranks_may_use_different_results(subject: Subject, world: World) -> None:
    """Each rank's loss uses other results; if ranks share the loss, it leaves out one result after the other."""
    tried = False
    for claim in claims(subject, world):
        signature, look = signature_of(claim), claim.observed
        if len(look.differentiable) < 2:
            continue
        tried = True
        need_right_gradient(claim, world)
        _expect_gradients(claim, list(_partial_losses(signature, look, world)), world)
    need(tried, "it returns at most one tensor that has a gradient")


def _partial_losses(signature: Signature, look: Observation, world: World) -> Iterator[list[tuple[int, ...]]]:
    """For each rank, the results that its loss uses. All ranks use the same ones of type I or P."""
    own = [at for at in look.differentiable if signature.results[at].loss_differs]
    shared = [at for at in look.differentiable if at not in own]
    if own:
        yield [(*shared, own[rank % len(own)]) for rank in range(world.size)]
        yield [look.differentiable if rank == 0 else (*shared, own[-1]) for rank in range(world.size)]
    for left_out in look.differentiable:
        yield [tuple(at for at in look.differentiable if at != left_out)] * world.size


def _expect_gradients(claim: Claim, losses: Sequence[Sequence[Sequence[int]]], world: World) -> None:
    """Assert that the gradients are right for each loss, given the results that it uses on each rank."""
    signature, call, run = signature_of(claim), claim.call, claim.call.in_group(world_group())
    mine = claim.held(world)
    given = [
        cotangent(kind, y, world.rank, at) if at in claim.observed.differentiable else torch.zeros_like(y)
        for at, (kind, y) in enumerate(zip(signature.results, run(mine), strict=True))
    ]
    for loss in losses:
        used = loss[world.rank]
        slopes = _declared(claim, used, mine, given, world) if call.is_declared else _added_up(claim, loss)
        partial = [g if at in used else None for at, g in enumerate(given)]
        gradients = all_ranks(world).tensors(backward(run, mine, partial))
        own_losses = any(signature.results[at].loss_differs for at in used)
        for at, (kind, slope) in enumerate(zip(signature.arguments, slopes, strict=True)):
            if slope is not None and mine[at].requires_grad:
                name = f"the gradient of argument {at} of {call.label}"
                why = problem(kind, slope, [rank[at] for rank in gradients], own_losses, name)
                expect.that(not why, f"where ranks use only some of the results: {call.told(why)}")


def _declared(
    claim: Claim, used: Sequence[int], mine: Sequence[torch.Tensor], given: Sequence[torch.Tensor], world: World
) -> Sequence[Slopes | None]:
    """The slopes of a loss by the formula, which is asked anew: it need not be linear."""
    call, fixed = claim.call, [x.detach() for x in mine]
    filled = [g if at in used else torch.zeros_like(g) for at, g in enumerate(given)]
    run = call.in_group(world_group())
    (found,) = loss_slopes(all_ranks(world), run, fixed, differs(signature_of(claim)), [filled], call.precision)
    return found


def _added_up(claim: Claim, loss: Sequence[Sequence[int]]) -> list[Slopes | None]:
    """The slopes of a loss, given the results that it uses on each rank: the sum of those of each result alone."""
    signature, look, size = signature_of(claim), claim.observed, len(loss)
    found: list[Slopes | None] = [None] * len(signature.arguments)
    for result in sorted(set(itertools.chain(*loss))):
        kind = signature.results[result]
        for at, one in enumerate(look.slopes[result, kind.loss_differs]):
            if one is not None:
                own = one.scaled(1 / size if kind is Type.I else 1.0).on([result in used for used in loss])
                before = found[at]
                found[at] = own if before is None else before.plus(own)
    return found


@clause("Collective.backward.twice")
@ranks(2, 3)
def test_second_derivative_is_right_or_refused(subject: Subject, world: World) -> None:
    """As a collective with its own types, the gradient has the right gradient, or all ranks raise an error."""
    for claim in claims(subject, world):
        signature, look = signature_of(claim), claim.observed
        asked = [at for at, tensor in enumerate(claim.call.tensors) if tensor.requires_grad]
        need(look.differentiable, "no result has a gradient")
        need(not claim.call.is_declared, "its gradient is a declared one, and nothing states its derivative")
        need_right_gradient(claim, world)
        need(_one_shape_each(look), "a result has different shapes on different ranks")
        drawn, call = _incoming(look, world), claim.call.along_two()
        groups = _moving_together(signature, drawn)
        run = _gradient(call, asked, drawn, groups)
        steps = [drawn[group[0]].new_zeros(call.directions).requires_grad_() for group in groups]
        samples = [*all_ranks(world).agreed(call.samples()), *steps]
        if _is_refused(run, samples, world):
            continue
        choices = list(_gradient_signatures(signature, asked, groups))
        found = kept_of(all_ranks(world), run, samples, len(asked), call.precision, choices)
        if not any(finding.kept for finding in found):
            raise Deviation(
                f"differentiating the gradient of {claim.call.label} gives wrong numbers without an error: "
                "with the gradients that come in as its last arguments "
                f"it is {found[0].signature}, and {call.told(found[0].why)}",
                likely=_collectives_in_backward(call, run, samples, world),
            )


def _collectives_in_backward(call: TensorCall, run: GroupCall, samples: Sequence[torch.Tensor], world: World) -> str:
    """Name what backward starts on any rank: plain collectives have no gradient. Every rank has to ask."""
    with counted() as ahead:
        call.in_group(world_group())(list(samples[: len(call.tensors)]))
    with counted() as started:
        run(samples)
    names = ", ".join(sorted({name for own in world.exchange(started[len(ahead) :]) for name in own}))
    return f"backward starts {names}, which autograd may not see" if names else ""


def _moving_together(signature: Signature, drawn: Mapping[int, torch.Tensor]) -> list[list[int]]:
    """Return the results whose incoming gradients move together: those of one type, for they are of one type too.

    That of a result of type P is of type R or I, each its own, so it moves alone.
    """
    groups: dict[object, list[int]] = {}
    for at, g in drawn.items():
        kind = signature.results[at]
        groups.setdefault((kind, g.dtype, at if kind is Type.P else None), []).append(at)
    return list(groups.values())


def _gradient(
    call: TensorCall, asked: Sequence[int], drawn: Mapping[int, torch.Tensor], groups: Sequence[Sequence[int]]
) -> GroupCall:
    """The gradients by the arguments that ask for one, as a function of the arguments and of the steps."""

    def gradient(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        count = len(tensors) - len(groups)
        inputs = list(tensors[:count])
        # In a network what comes in is no leaf, and PyTorch refuses to write into a leaf alone: it would hide the rest.
        given = {
            at: call.grown(steps, drawn[at], f"incoming {at}").clone()
            for group, steps in zip(groups, tensors[count:], strict=True)
            for at in group
        }
        for at in asked:  # leaves would do as well, but those of a caller have no graph
            inputs[at] = inputs[at] if inputs[at].requires_grad else inputs[at].detach().requires_grad_()
        results = call.in_group(world_group())(inputs)
        pairs = [(results[at], g.to(results[at].dtype)) for at, g in given.items() if results[at].requires_grad]
        found = torch.autograd.grad(
            [y for y, _ in pairs],
            [inputs[at] for at in asked],
            [g for _, g in pairs],
            create_graph=True,
            allow_unused=True,
        )
        return [torch.zeros_like(inputs[at]) if g is None else g for at, g in zip(asked, found, strict=True)]

    return gradient


def _one_shape_each(look: Observation) -> bool:
    return all(
        len({getattr(results[at], "shape", None) for results in look.results}) == 1 for at in look.differentiable
    )


def _incoming(look: Observation, world: World) -> dict[int, torch.Tensor]:
    """A gradient for each result that has one, the same on every rank."""
    zeroth = {at: look.results[0][at] for at in look.differentiable}
    drawn = {at: cotangent(Type.P, y, 0, "twice", at) for at, y in zeroth.items() if y is not None}
    return {at: to_double(g).to(world.device) for at, g in drawn.items()}


def _is_refused(run: GroupCall, samples: Sequence[torch.Tensor], world: World) -> bool:
    """Whether no rank can differentiate the gradient: it raises, or the gradient has no graph.

    Raises:
        Deviation: it raises on some ranks, and others differentiate it.
    """
    for _ in range(TIMES):
        everywhere = world.exchange(_refusal(run, samples))
        refusing = [rank for rank, why in enumerate(everywhere) if why not in {"", NO_GRAPH}]
        if not refusing or "" not in everywhere:
            return "" not in everywhere
    actual = f"rank {refusing[0]}, not rank {everywhere.index('')}: {everywhere[refusing[0]]}"
    raise Deviation("ranks that raise an error for the second derivative", actual, "all or none")


def _refusal(run: GroupCall, samples: Sequence[torch.Tensor]) -> str:
    """Say why this rank cannot differentiate the gradient; empty if it can."""
    mine = [x.detach().clone().requires_grad_(x.requires_grad) for x in samples]
    try:
        rooted = [y for y in run(mine) if y.requires_grad]
        if not rooted:
            return NO_GRAPH
        loss = torch.stack([y.abs().square().sum() for y in rooted]).sum()
        torch.autograd.backward(loss)
    except Exception as error:  # of the gradient with a graph, or of its own
        return f"{type(error).__name__}: {error}"
    return ""


def _gradient_signatures(
    signature: Signature, asked: Sequence[int], groups: Sequence[Sequence[int]]
) -> Iterator[Signature]:
    """The types that the gradient may have, by those of the Function."""
    incoming = itertools.product(*(GRADIENT_TYPES[signature.results[group[0]]] for group in groups))
    outgoing = list(itertools.product(*(GRADIENT_TYPES[signature.arguments[at]] for at in asked)))
    for given, found in itertools.product(incoming, outgoing):
        yield Signature((*signature.arguments, *given), found)
