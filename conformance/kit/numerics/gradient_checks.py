"""Compare the gradient of every input of a call with differences of forward, along several directions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import torch

from conformance.kit import expect, tolerances
from conformance.kit.backward import returns_gradients
from conformance.kit.calls import BACKWARD_SEED, Run, SampleCall, grads_kept
from conformance.kit.deviations import Deviation
from conformance.kit.diagnosis import likely_cause
from conformance.kit.numerics.derivatives import (
    by_differences,
    by_outputs,
    likely_mistake,
    mistaken_cotangents,
    slope_along,
    slopes_along,
    unless_it_stops,
)
from conformance.kit.numerics.nearby import directions, perturbed, points_near
from conformance.kit.numerics.slopes import SlopeJudgement, epsilon, paired
from conformance.kit.numerics.triangles import kept_symmetric
from conformance.kit.recording import recording
from conformance.kit.sample_calls import differentiate
from conformance.kit.tensors import is_strided, same_values
from conformance.kit.world import World

#: What a wrong gradient is if it is another one with another seed.
RANDOM_GRADIENT = (
    "backward draws random numbers, and with another seed it gives another gradient; declare which with formula="
)
#: Gradients of at most this many elements are shown whole beside those by differences.
SHOWN_WHOLE = 64


def expect_derivative(
    sample: SampleCall, world: World, is_derived: bool = False, is_explained: bool = True
) -> dict[int, bool]:
    """Assert that the gradient of every input agrees with differences; return for each whether they were conclusive.

    If the suite derived the sample, long steps may overrule a deviation; to explain a wrong gradient takes many more
    calls.
    """
    told: dict[int, bool] = {}
    unclear = list(sample.active)
    for point in points_near(sample, world):
        run = point.run()
        cotangents = run.cotangents(world)
        here, eps = paired(cotangents, run.outputs), result_epsilon(world, run)
        gradients = dict(zip(run.leaves, run.gradients(cotangents), strict=True))
        tried, unclear = unclear, []
        for at in tried:
            if gradients[at] is None and at not in sample.top:
                continue  # autograd does not look into containers
            one = _InputGradient(world, run, cotangents, at, gradients[at], here, eps)
            moves = one.directions()
            moves = moves[:1] if is_derived and not is_explained else moves
            slopes = one.slopes(moves, is_derived)
            one.expect_right(moves, slopes, is_explained)
            told[at] = told.get(at, False) or any(slope.verdict == "agrees" for slope in slopes)
            if any(slope.verdict == "unclear" for slope in slopes):
                unclear.append(at)
        if not unclear:
            break
    return told


def expect_derivative_of_parameters(sample: SampleCall, world: World) -> dict[int, bool]:
    """Assert the same for module parameters that are arguments; return for each whether differences were conclusive.

    A parameter without a gradient is not judged: backward may add it to ``grad`` itself.
    """
    told = dict.fromkeys(sample.of_modules, False)
    if not told:
        return told
    run = sample.run()
    cotangents = run.cotangents(world)
    here, eps = paired(cotangents, run.outputs), result_epsilon(world, run)
    own = replace(run, leaves={at: run.values[at] for at in told})
    with grads_kept(own.leaves.values()):
        gradients = dict(zip(told, own.gradients(cotangents), strict=True))
    for at in (at for at, gradient in gradients.items() if gradient is not None):
        one = _InputGradient(world, own, cotangents, at, gradients[at], here, max(eps, epsilon([run.values[at]])))
        slopes = [one.slope(each) for each in directions(world, run.values[at].detach())]
        for slope in slopes:
            expect_slope(slope, f"a random direction of {sample.name(at)}, which belongs to a module")
        told[at] = any(slope.verdict == "agrees" for slope in slopes)
    return told


def expect_slope(slope: SlopeJudgement, direction: str, likely: str = "") -> None:
    """Assert that differences of forward do not contradict the slope that backward claims along a direction."""
    expect.that(
        slope.verdict != "differs",
        f"derivative of the loss along {direction}",
        f"{slope.analytic:.9g} by backward",
        f"{slope.by_differences}, by differences of forward",
        likely,
    )


@dataclass(frozen=True)
class _InputGradient:
    """The gradient that backward returned for one input of a call, to be compared with differences of forward."""

    world: World
    run: Run
    cotangents: list[torch.Tensor]
    at: int
    gradient: torch.Tensor | None
    #: The terms of the loss, and the machine epsilon of the results.
    here: torch.Tensor
    eps: float

    @property
    def value(self) -> torch.Tensor:
        value: torch.Tensor = self.run.sample.values[self.at].detach()
        return value

    def directions(self) -> list[torch.Tensor]:
        moves = directions(self.world, self.value)
        return [kept_symmetric(self.run, self.at, direction, self.gradient) for direction in moves]

    def slope(self, direction: torch.Tensor, coarsest: float = 0.0) -> SlopeJudgement:
        eps = max(self.eps, coarsest)
        return slope_along(self.world, self.run, self.cotangents, self.at, self.gradient, direction, eps, self.here)

    def slopes(self, moves: list[torch.Tensor], is_derived: bool) -> list[SlopeJudgement]:
        """Compare with differences along each of some directions.

        A deviation at a derived sample is measured again with the long steps that internal single precision needs. They
        overrule it if they agree and their noise is well below it.
        """

        def along(direction: torch.Tensor) -> SlopeJudgement:
            found = self.slope(direction)
            if is_derived and found.verdict == "differs":
                again = self.slope(direction, tolerances.SINGLE)
                if again.verdict == "agrees" and tolerances.CLEAR_OF_NOISE * again.noise < found.deviation:
                    return again
            return unless_it_stops(found, self.world, self.run, self.cotangents, self.at, direction)

        return [along(direction) for direction in moves]

    def expect_right(self, moves: list[torch.Tensor], slopes: list[SlopeJudgement], is_explained: bool) -> None:
        """Assert that no slope differs; show a small gradient in full, if the cause of a wrong one is looked for."""
        wrong = next((slope for slope in slopes if slope.verdict == "differs"), None)
        if wrong is None:
            return
        is_small = self.value.numel() <= SHOWN_WHOLE and is_strided(self.value) and self.world.size == 1
        if is_explained and is_small:
            self._expect_same(wrong)
        likely = (self._cause(moves, slopes) or self._drawn()) if is_explained else ""
        expect_slope(wrong, f"a random direction of {self.run.sample.name(self.at)}", likely)

    def _cause(self, moves: list[torch.Tensor], slopes: list[SlopeJudgement]) -> str:
        """Name the mistake that all directions share, such as a factor; a single direction shows none."""
        wrong = [pair for pair in zip(moves, slopes, strict=True) if pair[1].verdict == "differs"]
        is_alone = self.gradient is not None and self.world.size == 1
        if not is_alone or len(wrong) < 2 or any(slope.verdict == "agrees" for slope in slopes):
            return ""
        actual, expected = (_row(getattr(slope, name) for _, slope in wrong) for name in ("analytic", "numeric"))
        mistaken = mistaken_cotangents(self.run, self.cotangents)
        rows = [slopes_along(self.run, list(mistaken.values()), self.at, direction) for direction, _ in wrong]
        others = dict(zip(mistaken, map(_row, zip(*rows, strict=True)), strict=True))
        return likely_cause(actual, expected, others, by_outputs(self.run, others, expected))

    def _expect_same(self, slope: SlopeJudgement) -> None:
        """Show both gradients in full, if they differ visibly and forward accepts a change of each single element."""
        run, cotangents, at, gradient = self.run, self.cotangents, self.at, self.gradient
        expected = self.world.try_call(by_differences, run, cotangents, at)
        if expected is None:
            return
        what = f"gradient of {run.sample.name(at)}"
        if gradient is None:
            raise Deviation(what, "None: no gradient at all", expect.shown(expected), _forgotten(run.sample))
        actual, right = expect.shown_apart(gradient, expected)
        raise Deviation(
            f"{what}{expect.beyond_start(gradient, expected)}",
            actual,
            f"{right} by differences of forward; along a random direction their slope is {slope.by_differences}, "
            f"that of the actual gradient {slope.analytic:.9g}",
            self.world.try_call(likely_mistake, run, cotangents, at, gradient, expected) or self._drawn(),
        )

    def _drawn(self) -> str:
        """Say so if backward gives another gradient with another seed, and the same one with the same."""
        if self.gradient is None or self.world.size > 1:
            return ""
        place, known = list(self.run.leaves).index(self.at), self.gradient

        def is_again(seed: int) -> bool:
            gradient = self.run.sample.run().gradients(self.cotangents, seed)[place]
            return gradient is not None and same_values(gradient, known)

        again = [self.world.try_call(is_again, seed) for seed in (BACKWARD_SEED, BACKWARD_SEED + 1)]
        return RANDOM_GRADIENT if again == [True, False] else ""


def _row(numbers: Iterable[float]) -> torch.Tensor:
    return torch.tensor(list(numbers), dtype=torch.float64)


def gradients_of(sample: SampleCall, cotangents: list[torch.Tensor]) -> list[torch.Tensor]:
    """Compute the gradients in a separate call, zeros if there is none."""
    run = sample.run()
    return [gradient.detach().clone() for gradient in run.filled(run.gradients(cotangents))]


def result_epsilon(world: World, run: Run) -> float:
    """Return the machine epsilon of a call's results: that of single precision if all of them fit into it."""
    moved = world.try_call(next(perturbed(run.sample, world, tolerances.SINGLE)).run, needed=run.leaves)
    outputs = moved.outputs if moved else run.outputs
    fits = all(bool((_in_single(output) == output).all()) for output in outputs if is_strided(output))
    eps = epsilon([*run.outputs, *run.leaves.values()])
    return max(eps, tolerances.SINGLE) if all(world.exchange(fits)) else eps


def _in_single(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to(torch.complex64 if tensor.dtype.is_complex else torch.float32).to(tensor.dtype)


def _forgotten(sample: SampleCall) -> str:
    """Explain a backward that returned only None."""
    if sample.subject.function is None:
        return ""
    recorded, notes = recording(sample.subject, "backward", "vjp")
    differentiate(replace(sample, subject=recorded))
    returned = [noted.returned for name in ("backward", "vjp") for noted in notes.of(name)]
    if not returned or any(value is not None for value in returned):
        return ""
    if not returns_gradients(sample.subject.function):
        return "backward lacks its return, or returns None alone"
    return "backward returns None, as .grad is of what is not a leaf"
