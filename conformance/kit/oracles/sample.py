"""Judge all gradients of a sample, and explain those that cannot be judged finely enough."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

import torch

from conformance.kit import tolerances
from conformance.kit.calls import SampleCall
from conformance.kit.deviations import Skipped
from conformance.kit.judgement import Judgement, percent
from conformance.kit.numerics.nearby import points_near
from conformance.kit.oracles import gradient, reference
from conformance.kit.oracles.inputs import function_of
from conformance.kit.sample_calls import in_double
from conformance.kit.tensors import dense
from conformance.kit.world import World

NO_ELEMENT = "no tensor that is differentiated has an element, so every gradient is right; give a sample that has some"
HALVES = (torch.float16, torch.bfloat16)
_ADVICE = (
    "give reference=, a wider dtype, a smaller sample or one away from kinks, let an iteration go on for longer, "
    "or ask for less by --resolution"
)


@dataclass(frozen=True)
class JudgedInput:
    """Judgement on the gradient of one input of a sample, and the required resolution."""

    sample: SampleCall
    at: int
    judgement: Judgement
    limit: float

    @property
    def name(self) -> str:
        """Return its name for messages."""
        return self.sample.name(self.at)

    @property
    def is_seen(self) -> bool:
        """Whether an error beyond the limit would have been seen."""
        return self.judgement.is_finer_than(self.limit)

    @property
    def may_pass(self) -> bool:
        """Whether an error would have been seen, or none would matter."""
        return is_enough(self.judgement, self.limit) or self.judgement.may_be_meant


def judged_inputs(given: SampleCall, world: World) -> list[JudgedInput]:
    """Judge the gradient of each input of a sample: by the subject's reference, else as a derivative.

    Derivatives are taken in double precision if forward accepts it.
    """
    wide = in_double(given)
    usual = tolerances.RESOLUTION_IN_HALF if takes_half_alone(wide) else tolerances.RESOLUTION
    limit = world.resolution or usual
    found = reference.judgements(given, world)
    is_alone = bool(found) and not all(bool(dense(one.detach()).isfinite().all()) for one in given.run().outputs)
    if not is_alone and (not found or not all(_is_settled([one], limit) for one in found.values())):
        for at, judged in _by_derivative(wide, world, limit).items():
            if at not in found or judged.verdict == "differs" or judged.resolution < found[at].resolution:
                found[at] = judged
    return [JudgedInput(given, at, judgement, limit) for at, judgement in found.items()]


def takes_half_alone(wide: SampleCall) -> bool:
    """Whether inputs stay in half precision although the sample was converted to double as far as forward accepts."""
    return any(wide.values[at].dtype in HALVES for at in wide.active)


def said_of(judged: Sequence[JudgedInput]) -> str:
    """Describe a pass for the gradients of all samples: the smallest error that would have been detected.

    Raises:
        Skipped: an error in the gradient of some input would not have been seen at any sample, or there is no element.
    """
    if judged and not any(one.sample.values[one.at].numel() for one in judged):
        raise Skipped(NO_ELEMENT)
    passing = {one.sample.names[one.at] for one in judged if one.may_pass}
    coarse = [one for one in judged if one.sample.names[one.at] not in passing]
    if coarse:
        raise Skipped(too_coarse({one.name: one.judgement for one in coarse}))
    seen = [one.judgement for one in judged if one.is_seen]
    said = []
    left = [one for one in judged if not one.is_seen and not one.judgement.may_be_meant]
    said += [
        f"gradient of {one.name} off by {percent(abs(one.judgement.error))}: see Function.backward.exact"
        for one in judged
        if one.judgement.may_be_meant
    ]
    for rule, those in groupby(sorted(left, key=lambda one: one.judgement.rule), lambda one: one.judgement.rule):
        said.append(f"gradient of {', '.join(one.name for one in those)} not judged: {rule}")
    return "; ".join([*said, max(seen, key=lambda one: one.resolution).seen] if seen else said)


def too_coarse(coarse: Mapping[str, Judgement]) -> str:
    """Explain why gradients do not pass, by their names, and what helps."""
    worst = max(coarse.values(), key=lambda one: one.resolution if one.verdict == "agrees" else math.inf)
    if worst.verdict == "agrees" and worst.resolution < 1:
        why = f"the smallest detectable error is {percent(worst.resolution)} ({worst.oracle})"
    else:
        why = f"no error would be detected ({worst.oracle}: {worst.rule})"
    return f"gradient of {', '.join(coarse)} not judged: {why}; {_ADVICE}"


def _by_derivative(sample: SampleCall, world: World, limit: float) -> dict[int, Judgement]:
    """Judge at the sample, or at a point near it: a kink at one of them is not at the others."""
    seen: dict[int, list[Judgement]] = {}
    for point in points_near(sample, world):
        run = point.run()
        gradients = dict(zip(run.leaves, run.gradients(run.cotangents(world)), strict=True))
        for at, found in gradients.items():
            if found is None and at not in sample.top:
                continue  # autograd does not look into containers
            if not _is_settled(seen.setdefault(at, []), limit):
                seen[at].append(gradient.judge(function_of(world, run, at, found)))
        if all(_is_settled(judged, limit) for judged in seen.values()):
            break
    return {at: _joined(judged) for at, judged in seen.items()}


def _is_settled(judged: list[Judgement], limit: float) -> bool:
    """Whether no other point needs to be judged: one was judged finely, or two show a deviation."""
    return any(is_enough(one, limit) for one in judged) or [one.verdict for one in judged].count("differs") == 2


def _joined(judged: list[Judgement]) -> Judgement:
    """Return the finest judgement; a deviation at only one point may be a kink or a tie there."""
    off = [one for one in judged if one.verdict == "differs"]
    others = [one for one in judged if one not in off]
    says_nothing = all(one.verdict == "unclear" and one.rule != gradient.NEGLIGIBLE for one in others)
    if says_nothing and (len(off) > 1 or not others):
        return off[0]
    return min(others, key=lambda one: (one.verdict != "agrees", one.resolution))


def is_enough(judgement: Judgement, limit: float) -> bool:
    """Whether an error beyond a limit would have been detected, or the input hardly matters."""
    return judgement.is_finer_than(limit) or judgement.rule == gradient.NEGLIGIBLE
