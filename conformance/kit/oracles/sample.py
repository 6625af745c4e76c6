"""The judgements of all gradients of a sample."""

from __future__ import annotations

from conformance.kit.calls import SampleCall
from conformance.kit.numerics.nearby import nearby
from conformance.kit.oracles import gradient
from conformance.kit.oracles.inputs import function_of
from conformance.kit.oracles.judgement import Judgement
from conformance.kit.world import World


def judgements(sample: SampleCall, world: World, limit: float) -> dict[int, Judgement]:
    """Judge the gradient of each input of a sample, or of a point close to it: a kink at one of them is none at others.

    Args:
        sample: the call.
        world: one rank alone.
        limit: the resolution that suffices.
    """
    seen: dict[int, list[Judgement]] = {}
    for point in nearby(sample, world):
        run = point.run()
        gradients = dict(zip(run.leaves, run.gradients(run.cotangents(world)), strict=True))
        for at, given in gradients.items():
            if given is None and at not in sample.top:
                continue  # autograd does not look into containers
            if not _is_settled(seen.setdefault(at, []), limit):
                seen[at].append(gradient.judge(function_of(world, run, at, given)))
        if all(_is_settled(judged, limit) for judged in seen.values()):
            break
    return {at: _joined(judged) for at, judged in seen.items()}


def _is_settled(judged: list[Judgement], limit: float) -> bool:
    """Whether no other point has to be looked at: one was judged finely, or two accuse."""
    fine = any(one.is_finer_than(limit) or one.rule == gradient.NEGLIGIBLE for one in judged)
    return fine or [one.verdict for one in judged].count("differs") == 2


def _joined(judged: list[Judgement]) -> Judgement:
    """The finest judgement; what differs at one point alone may be a kink or a tie there."""
    wrong = [one for one in judged if one.verdict == "differs"]
    if len(wrong) == len(judged):
        return wrong[0]
    return min((one for one in judged if one.verdict != "differs"), key=lambda one: one.resolution)
