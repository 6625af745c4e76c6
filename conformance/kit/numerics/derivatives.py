"""Compute the gradient of one input by differences of forward, element by element, and explain a wrong one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import torch

from conformance.kit import tolerances
from conformance.kit.calls import Run
from conformance.kit.diagnosis import likely_cause
from conformance.kit.numerics.differences import central, stops_early
from conformance.kit.numerics.nearby import rms_size
from conformance.kit.numerics.slopes import SlopeJudgement, compare_slope, epsilon, inner, jacobian_scale, paired
from conformance.kit.tensors import is_strided, same_values, stored_values
from conformance.kit.world import World

#: Of so many outputs all pairs are tried.
FEW_OUTPUTS = 6
_NO_CONJ = "the derivative is not conjugated: PyTorch's gradient is grad times the conjugate derivative"
INTENDED = "if it is intended, declare it with formula="
#: What a wrong gradient may be if nothing is known of it, and what explains one where forward has none nearby.
OTHER_GRADIENT = f"another gradient than the derivative; {INTENDED}"
SURROGATE = f"the surrogate gradient of a step function; {INTENDED}"
_IGNORED = "the incoming gradient of output {} is ignored"


def outputs_at(run: Run, at: int, value: torch.Tensor) -> list[torch.Tensor]:
    """Compute the outputs for another value of one input, which needs a gradient as in the call.

    A parameter of a module that is an argument too is changed in place, and restored.
    """
    if at not in run.sample.of_modules:
        tensors = run.sample.having({at: value}).run(needed=run.leaves).tensors
        return [tensors[place] for place in run.places]
    parameter = run.sample.values[at].detach()
    kept = parameter.clone()
    try:
        parameter.copy_(value)
        tensors = run.sample.run().tensors
        return [tensors[place] for place in run.places]
    finally:
        parameter.copy_(kept)


def slope_along(
    world: World,
    run: Run,
    cotangents: list[torch.Tensor],
    at: int,
    gradient: torch.Tensor | None,
    direction: torch.Tensor,
    eps: float,
    here: torch.Tensor | None = None,
) -> SlopeJudgement:
    """Compare the gradient of one input with differences of forward along a direction.

    The terms of the loss ``here``, without a step, are computed if they are not given.
    """
    value = run.sample.values[at].detach()

    def loss(step: float) -> torch.Tensor:
        if step == 0 and here is not None:
            return here
        return paired(cotangents, outputs_at(run, at, value + step * direction))

    return compare_slope(world, loss, inner(gradient, direction), eps, jacobian_scale(cotangents, [direction]))


def unless_it_stops(
    found: SlopeJudgement, world: World, run: Run, cotangents: list[torch.Tensor], at: int, direction: torch.Tensor
) -> SlopeJudgement:
    """Take a difference back if short steps disagree, and a longer one shows what backward claims.

    A solver that stops within a tolerance leaves more than short steps change.
    """
    value = run.sample.values[at].detach()

    def gap(step: float) -> float:
        moved = [outputs_at(run, at, value + way * direction) for way in (step, -step)]
        ahead, behind = (float(paired(cotangents, outputs).sum()) for outputs in moved)
        return central(ahead, behind, step) - found.analytic

    if found.verdict != "differs" or world.size > 1 or epsilon([value]) >= tolerances.SINGLE:
        return found
    stops = world.try_call(stops_early, gap, found.deviation)
    return replace(found, verdict="unclear") if stops else found


def by_differences(run: Run, cotangents: list[torch.Tensor], at: int) -> torch.Tensor:
    """Return the gradient of one input by differences of forward, changing each element in turn."""
    return _by_differences(run, [cotangents], at)[0]


def _by_differences(run: Run, several: Sequence[list[torch.Tensor]], at: int) -> list[torch.Tensor]:
    """Compute the gradients of one input for several lists of cotangents, with as few calls of forward as for one."""
    value = run.sample.values[at].detach().clone(memory_format=torch.contiguous_format)
    expected = [torch.zeros_like(value) for _ in several]
    for element in range(value.numel()):
        for unit in (1.0, 1.0j) if value.dtype.is_complex else (1.0,):
            direction = torch.zeros_like(value)
            direction.view(-1)[element] = torch.tensor(unit, dtype=value.dtype)
            for gradient, slope in zip(expected, slopes_along(run, several, at, direction), strict=True):
                gradient.view(-1)[element] += torch.tensor(slope * unit, dtype=value.dtype)
    return expected


def slopes_along(run: Run, several: Sequence[list[torch.Tensor]], at: int, direction: torch.Tensor) -> Iterator[float]:
    """Return the slopes along a direction, by differences, of the losses that several lists of cotangents define."""
    value = run.sample.values[at].detach()
    length = float(stored_values(direction).abs().max()) or 1.0
    step = epsilon([*run.outputs, value]) ** (1 / 3) * rms_size(value) / length
    ends = [_losses(several, outputs_at(run, at, value + sign * step * direction)) for sign in (1, -1)]
    return (central(one, other, step) for one, other in zip(*ends, strict=True))


def _losses(several: Sequence[list[torch.Tensor]], outputs: list[torch.Tensor]) -> list[float]:
    """Return the loss that each list of cotangents defines. Common parts are computed once."""
    known: dict[tuple[int, int], float] = {}

    def term(place: int, cotangent: torch.Tensor) -> float:
        key = place, id(cotangent)
        if key not in known:
            known[key] = float(paired([cotangent], [outputs[place]]).sum())
        return known[key]

    return [sum(term(place, cotangent) for place, cotangent in enumerate(cotangents)) for cotangents in several]


def likely_mistake(
    run: Run, cotangents: list[torch.Tensor], at: int, gradient: torch.Tensor, expected: torch.Tensor
) -> str:
    """List what the wrong gradient of one input may be: another input's, a surrogate, or the right one in another form.

    It may also be the gradient of only some outputs, or one for which incoming gradients were exchanged.
    """
    of_inputs, mistaken = _of_other_inputs(run, cotangents, at), _of_other_cotangents(run, cotangents, at)
    terms = of_inputs | by_outputs(run, mistaken, expected)
    likely = likely_cause(gradient, expected, of_inputs | mistaken, terms)
    if likely and any(same_values(output, run.leaves[at]) for output in run.outputs):
        return f"{likely}; {INTENDED}"  # an identity is written for its gradient
    return likely or _made_on_purpose(run, at, gradient, expected)


def by_outputs(run: Run, mistaken: Mapping[str, torch.Tensor], expected: torch.Tensor) -> dict[str, torch.Tensor]:
    """Compute what each of several outputs adds to a gradient, from the gradient without that output."""
    rest = {place: mistaken.get(_IGNORED.format(place)) for place in run.places}
    return {f"the gradient by output {place}": expected - one for place, one in rest.items() if one is not None}


def _of_other_inputs(run: Run, cotangents: list[torch.Tensor], at: int) -> dict[str, torch.Tensor]:
    """Return the gradients, by differences, that may have been returned at the wrong place."""
    plain = {place: leaf for place, leaf in run.leaves.items() if is_strided(leaf)}
    others = [place for place, leaf in plain.items() if place != at and leaf.shape == run.leaves[at].shape]
    found = {f"the gradient of {run.sample.names[place]}": by_differences(run, cotangents, place) for place in others}
    return {name: gradient for name, gradient in found.items() if bool(gradient.any())}


def _of_other_cotangents(run: Run, cotangents: list[torch.Tensor], at: int) -> dict[str, torch.Tensor]:
    """Return the gradients, by differences, of a backward that ignores or exchanges incoming gradients."""
    mistaken = mistaken_cotangents(run, cotangents)
    if any(cotangent.is_complex() for cotangent in cotangents):
        mistaken[_NO_CONJ] = [cotangent.conj() for cotangent in cotangents]
    found = dict(zip(mistaken, _by_differences(run, list(mistaken.values()), at), strict=True))
    if _NO_CONJ in found:
        found[_NO_CONJ] = found[_NO_CONJ].conj()
    return {name: gradient for name, gradient in found.items() if bool(gradient.any())}


def mistaken_cotangents(run: Run, cotangents: list[torch.Tensor]) -> dict[str, list[torch.Tensor]]:
    """List the incoming gradients that a wrong backward may use instead, by mistake.

    Of many outputs only neighbours are exchanged: trying all pairs would take too long.
    """
    found = {}
    for one, place in enumerate(run.places if len(cotangents) > 1 else ()):
        without = [torch.zeros_like(each) if other == one else each for other, each in enumerate(cotangents)]
        found[_IGNORED.format(place)] = without
        first = 0 if len(cotangents) <= FEW_OUTPUTS else one - 1
        for other in (other for other in range(max(first, 0), one) if cotangents[other].shape == cotangents[one].shape):
            exchanged = list(cotangents)
            exchanged[other], exchanged[one] = cotangents[one], cotangents[other]
            found[f"the incoming gradients of outputs {run.places[other]} and {place} are exchanged"] = exchanged
    if all(map(is_strided, cotangents)):
        found["backward assumes that its incoming gradient is one"] = [torch.ones_like(each) for each in cotangents]
    return found


def _made_on_purpose(run: Run, at: int, gradient: torch.Tensor, expected: torch.Tensor) -> str:
    """Tell a surrogate gradient from an unused input by taking a long step."""
    if bool((expected != 0).any()) or not bool((gradient != 0).any()):
        return ""
    here, value = run.sample.run().tensors, run.sample.values[at].detach()
    for far in (-value, 3 * value + 1, torch.zeros_like(value)):
        try:
            there = outputs_at(run, at, far)
        except Exception:  # it need not take any value
            continue
        if any(not torch.equal(here[place], other) for place, other in zip(run.places, there, strict=True)):
            return SURROGATE
    return (
        "forward does not use this input; if it reads the value from a module instead, "
        "pass the module's own parameter in call="
    )
