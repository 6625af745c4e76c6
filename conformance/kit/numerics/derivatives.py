"""The gradient of one input by differences of forward, element by element, and what a wrong one may be."""

from __future__ import annotations

import torch

from conformance.kit.calls import Run
from conformance.kit.diagnosis import likely_cause
from conformance.kit.numerics.nearby import typical
from conformance.kit.numerics.slopes import Comparison, compare, epsilon, inner, paired, reach
from conformance.kit.tensors import is_strided
from conformance.kit.world import World


def outputs_at(run: Run, at: int, value: torch.Tensor) -> list[torch.Tensor]:
    """What the call gives for another value of one input, which needs a gradient as it did in the call."""
    tensors = run.sample.having({at: value}).run(needed=run.leaves).tensors
    return [tensors[place] for place in run.places]


def slope_along(
    world: World,
    run: Run,
    cotangents: list[torch.Tensor],
    at: int,
    gradient: torch.Tensor | None,
    direction: torch.Tensor,
    eps: float,
) -> Comparison:
    """The gradient of one input compared with differences of forward along a direction."""
    value = run.sample.values[at].detach()

    def loss(step: float) -> torch.Tensor:
        return paired(cotangents, outputs_at(run, at, value + step * direction))

    return compare(world, loss, inner(gradient, direction), eps, reach(cotangents, [direction]))


def by_differences(run: Run, cotangents: list[torch.Tensor], at: int) -> torch.Tensor:
    """The gradient of one input that differences of forward tell, each element moved in turn."""
    value = run.sample.values[at].detach().clone(memory_format=torch.contiguous_format)
    step = epsilon([*run.outputs, value]) ** (1 / 3) * typical(value)
    expected = torch.zeros_like(value)
    for element in range(value.numel()):
        for unit in (1.0, 1.0j) if value.dtype.is_complex else (1.0,):
            ends = []
            for sign in (1, -1):
                moved = value.clone()
                moved.view(-1)[element] += sign * step * unit
                ends.append(float(paired(cotangents, outputs_at(run, at, moved)).sum()))
            expected.view(-1)[element] += (ends[0] - ends[1]) / (2 * step) * unit
    return expected


def likely_mistake(
    run: Run, cotangents: list[torch.Tensor], at: int, gradient: torch.Tensor, expected: torch.Tensor
) -> str:
    """What the wrong gradient of one input may be: another input's, a surrogate, or the right one in another form.

    It may also be that of some outputs alone, or of their incoming gradients exchanged.
    """
    others = _of_other_inputs(run, cotangents, at) | _of_other_cotangents(run, cotangents, at)
    return likely_cause(gradient, expected, others) or _made_on_purpose(run, at, gradient, expected)


def _of_other_inputs(run: Run, cotangents: list[torch.Tensor], at: int) -> dict[str, torch.Tensor]:
    """The gradients, by differences, that may have been returned at the wrong place."""
    plain = {place: leaf for place, leaf in run.leaves.items() if is_strided(leaf)}
    others = [place for place, leaf in plain.items() if place != at and leaf.shape == run.leaves[at].shape]
    found = {f"the gradient of {run.sample.names[place]}": by_differences(run, cotangents, place) for place in others}
    return {name: gradient for name, gradient in found.items() if bool(gradient.any())}


def _of_other_cotangents(run: Run, cotangents: list[torch.Tensor], at: int) -> dict[str, torch.Tensor]:
    """The gradients, by differences, of a backward that ignores an incoming gradient, or takes one for another."""
    mistaken = mistaken_cotangents(run, cotangents)
    found = {name: by_differences(run, others, at) for name, others in mistaken.items()}
    return {name: gradient for name, gradient in found.items() if bool(gradient.any())}


def mistaken_cotangents(run: Run, cotangents: list[torch.Tensor]) -> dict[str, list[torch.Tensor]]:
    """What a backward may make of the incoming gradients, by the mistake that leads to it."""
    found = {}
    for one, place in enumerate(run.places if len(cotangents) > 1 else ()):
        without = [torch.zeros_like(each) if other == one else each for other, each in enumerate(cotangents)]
        found[f"the incoming gradient of output {place} is ignored"] = without
        for other in (other for other in range(one) if cotangents[other].shape == cotangents[one].shape):
            exchanged = list(cotangents)
            exchanged[other], exchanged[one] = cotangents[one], cotangents[other]
            found[f"the incoming gradients of outputs {run.places[other]} and {place} are exchanged"] = exchanged
    if all(map(is_strided, cotangents)):
        found["backward takes its incoming gradient for one"] = [torch.ones_like(each) for each in cotangents]
    return found


def _made_on_purpose(run: Run, at: int, gradient: torch.Tensor, expected: torch.Tensor) -> str:
    """Tell a surrogate from an input that forward does not read: a long step changes the result of the one alone."""
    if bool((expected != 0).any()) or not bool((gradient != 0).any()):
        return ""
    here, value = run.sample.run().tensors, run.sample.values[at].detach()
    for far in (-value, 3 * value + 1, torch.zeros_like(value)):
        try:
            there = outputs_at(run, at, far)
        except Exception:  # it need not take any value
            continue
        if any(not torch.equal(here[place], other) for place, other in zip(run.places, there, strict=True)):
            return "a surrogate of a step function, which formula= declares if it is meant"
    return (
        "forward does not use this input; perhaps it reads the value from a module instead: "
        "pass the module's own parameter in call="
    )
