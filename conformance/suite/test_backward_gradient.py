"""``backward`` as mathematics: each value it returns is a derivative."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from conformance.kit import expect
from conformance.kit.calls import Case, Run, differentiated, filled, in_double
from conformance.kit.deviations import Deviation, NotApplicable, need
from conformance.kit.diagnosis import likely_cause
from conformance.kit.marks import clause
from conformance.kit.slopes import (
    Finding,
    compare,
    directions,
    epsilon,
    inner,
    nearby,
    paired,
    typical,
)
from conformance.kit.subject import Subject
from conformance.kit.world import World

OWN = "its spec says what the gradient is, and has clauses for it"
ROUGH = "too rough around every sample for differences to tell a derivative"


@clause("Function.backward.gradient")
def test_gradient_is_the_derivative(subject: Subject, world: World) -> None:
    """The gradient of every input is what differences of forward say, along several directions."""
    need(subject.gradient_kind != "spec", OWN)
    need(subject.gradient_kind == "numeric", "its gradient is a declared one")
    told = 0
    for case in [in_double(case) for case, _ in differentiated(subject, world)]:
        unclear = list(case.active)
        for point in nearby(case, world):
            run = point.run()
            cotangents = run.cotangents(world)
            gradients = dict(zip(run.leaves, run.gradients(cotangents), strict=True))
            tried, unclear = unclear, []
            for at in tried:
                if gradients[at] is None and at not in case.top:
                    continue  # autograd does not look into containers
                verdicts = _slopes(world, point, run, cotangents, at, gradients[at])
                told += "agrees" in verdicts
                if "unclear" in verdicts:
                    unclear.append(at)
            if not unclear:
                break
    need(told, ROUGH)


def _slopes(
    world: World,
    point: Case,
    run: Run,
    cotangents: list[torch.Tensor],
    at: int,
    gradient: torch.Tensor | None,
) -> list[str]:
    verdicts = []
    value = point.values[at].detach()
    for direction in directions(world, value):
        finding = compare(
            world,
            lambda step, direction=direction: paired(  # type: ignore[misc]
                cotangents, _moved(point, run.places, {at: value + step * direction})
            ),
            inner(gradient, direction),
            epsilon([*run.outputs, value]),
        )
        verdicts.append(finding.verdict)
        if finding.verdict == "differs":
            raise _wrong(world, point, run, cotangents, at, gradient, finding)
    return verdicts


def _moved(point: Case, places: Sequence[int], values: dict[int, torch.Tensor]) -> list[torch.Tensor]:
    tensors = point.having(values).run(needed=()).tensors
    return [tensors[place] for place in places]


def _wrong(
    world: World,
    point: Case,
    run: Run,
    cotangents: list[torch.Tensor],
    at: int,
    gradient: torch.Tensor | None,
    finding: Finding,
) -> Deviation:
    """Name the input, and show both gradients whole where that is affordable."""
    what = f"gradient of {point.name(at)}"
    value = point.values[at].detach()
    if value.numel() > 64 or world.size > 1:
        return Deviation(
            f"slope of the loss along a random direction of {point.name(at)}",
            f"{finding.analytic:.9g} by backward",
            f"{finding.numeric:.9g} by differences of forward",
            "the gradient was dropped" if gradient is None else "",
        )
    expected = _by_element(point, run, cotangents, at)
    if gradient is None:
        return Deviation(what, "None: no gradient at all", expect.shown(expected), "the gradient was dropped")
    likely = likely_cause(gradient, expected, {}) or _declared(gradient, expected)
    return Deviation(what, expect.shown(gradient), f"{expect.shown(expected)} by differences of forward", likely)


def _declared(gradient: torch.Tensor, expected: torch.Tensor) -> str:
    if bool((expected == 0).all()) and bool((gradient != 0).any()):
        return (
            "a surrogate of a step function, which formula= declares if it is meant; "
            "or forward takes this value from elsewhere, such as a module"
        )
    return ""


def _by_element(point: Case, run: Run, cotangents: list[torch.Tensor], at: int) -> torch.Tensor:
    value = point.values[at].detach().clone(memory_format=torch.contiguous_format)
    step = epsilon([*run.outputs, value]) ** (1 / 3) * typical(value)
    expected = torch.zeros_like(value)
    for element in range(value.numel()):
        for unit in (1.0, 1.0j) if value.dtype.is_complex else (1.0,):
            ends = []
            for sign in (1, -1):
                moved = value.clone()
                moved.view(-1)[element] += sign * step * unit
                ends.append(paired(cotangents, _moved(point, run.places, {at: moved}))[0])
            expected.view(-1)[element] += (ends[0] - ends[1]) / (2 * step) * unit
    return expected


@clause("Function.backward.gradient")
def test_gradient_is_the_declared_one(subject: Subject, world: World) -> None:
    """The gradient of every input is what the subject's formula says."""
    formula = subject.formula
    need(subject.gradient_kind != "spec", OWN)
    if subject.gradient_kind != "declared" or formula is None:
        raise NotApplicable("no formula is declared: the gradient is judged by differences")
    for case, run in differentiated(subject, world):
        cotangents = run.cotangents(world)
        actual = dict(zip(run.leaves, filled(run.gradients(cotangents), run), strict=True))
        given = dict(zip(run.places, cotangents, strict=True))
        declared = formula(case.arguments(), tuple(given.get(place) for place in range(len(run.tensors))))
        values = declared if isinstance(declared, tuple | list) else (declared,)
        for at in (at for at in case.active if at in case.top):
            index = case.argument(at)
            expected = values[index] if index < len(values) else None
            right = torch.zeros_like(actual[at]) if expected is None else expected
            expect.close(actual[at], right, f"gradient of {case.name(at)}, against the declared formula")
