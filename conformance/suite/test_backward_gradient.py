"""``backward`` as mathematics: each value it returns is a derivative."""

from __future__ import annotations

from dataclasses import replace

import torch

from conformance.kit import expect
from conformance.kit.calls import Run, SampleCall, differentiate, differentiated, in_double
from conformance.kit.derivatives import by_differences, likely_mistake, slope_along
from conformance.kit.deviations import Deviation, need
from conformance.kit.formula import declared_gradients
from conformance.kit.marks import cases, clause
from conformance.kit.precision import working_epsilon
from conformance.kit.recording import recording
from conformance.kit.returned import explained
from conformance.kit.sizes import GROWN, is_read, sized_otherwise
from conformance.kit.slopes import Comparison, directions, epsilon, nearby, typical
from conformance.kit.subject import Subject
from conformance.kit.tensors import dense, is_strided
from conformance.kit.triangles import kept_symmetric
from conformance.kit.variants import OWN, draws, farthest, moved_apart, shaken, steady, with_a_zero
from conformance.kit.world import World

ROUGH = "too rough around every sample for differences to tell a derivative"
#: Gradients of at most this many elements are shown whole beside those by differences.
SHOWN_WHOLE = 64
#: The factor by which a gradient scaler multiplies the loss at first.
LOSS_SCALE = 65536.0
#: How far gradients that should agree may be apart, next to their size: what is looked for is wrong and not imprecise.
NEAR = 0.01
#: How far a gradient may move next to its size, where steps as long as those of the differences are taken.
STABLE = 0.001
SINGLE = torch.finfo(torch.float32).eps


@clause("Function.backward.gradient")
def test_gradient_is_the_derivative(subject: Subject, world: World) -> str:
    """The gradient of every input is what differences of forward say, along several directions."""
    need(subject.gradient_kind != "spec", OWN)
    need(subject.gradient_kind == "numeric", "its gradient is a declared one")
    with explained(subject, world, "backward", differentiate):
        found = differentiated(subject, world)
        _expect_recorded([run for _, run in found])
        samples = [in_double(sample) for sample, _ in found]
        told = [_expect_derivative(sample, world) for sample in samples]
        apart = [moved_apart(sample, world) for sample in samples]
        also = [_expect_derivative(sample, world) if sample else {} for sample in apart]
    need(any(any(each.values()) for each in (*told, *also)), ROUGH)
    return _left_open(samples, told, also)


def _left_open(samples: list[SampleCall], told: list[dict[int, bool]], also: list[dict[int, bool]]) -> str:
    """Which gradients differences said nothing about, and why; empty where there is none."""
    unclear = [
        sample.name(at)
        for sample, here, there in zip(samples, told, also, strict=True)
        for at, is_told in here.items()
        if not (is_told or there.get(at, False))
    ]
    of_modules = [sample.name(at) for sample in samples for at in sample.of_modules]
    whys = {"which differences cannot tell": unclear, "which a module has that is an argument too": of_modules}
    return "; ".join(f"not judged is the gradient of {', '.join(names)}, {why}" for why, names in whys.items() if names)


def _expect_recorded(runs: list[Run]) -> None:
    """Expect results that autograd goes on with."""
    for run in runs:
        for place, output in zip(run.places, run.outputs, strict=True):
            expect.that(
                not output.is_inference(),
                f"output {place} of {run.sample.label}",
                "an inference tensor: what is computed from it has no gradient",
                "a tensor that autograd records",
            )


@clause("Function.backward.gradient")
@cases(
    size=[
        "one along the first dimension",
        "three along the first dimension instead of one",
        "over a hundred along the first dimension",
        "two fewer along the last dimension",
        "over a thousand along the last dimension",
        "one input longer than those that it is as long as",
    ]
)
def test_gradient_at_other_sizes(subject: Subject, world: World, size: str) -> None:
    """At other sizes that the subject takes, the gradient is what differences of forward say there."""
    found = steady(subject, world)
    need(subject.gradient_kind == "numeric", "its gradient is a declared one")
    right = [sample for sample in found if world.try_call(_expect_derivative, sample, world) is not None]
    need(right, "its gradient is wrong for the samples themselves")
    told = 0
    pairs = [(sample, other) for sample in right for other in world.try_call(sized_otherwise, sample, size) or ()]
    for sample, other in pairs:
        if not world.try_call(_is_stable, other, world):
            continue
        if size in GROWN and not world.try_call(lambda one, two: is_read(one, two) or None, sample, other):
            continue
        try:
            told += sum(_expect_derivative(other, world, is_derived=True).values())
        except Deviation:
            raise
        except Exception:  # the subject need not take what it was not made for
            continue
    need(told, f"it takes no sample with {size}, or passes what may be tied to the sizes")


@clause("Function.backward.gradient")
def test_gradient_is_finite_at_a_zero(subject: Subject, world: World) -> None:
    """With a zero in an input, a finite result has a finite gradient where it has a derivative."""
    found = steady(subject, world)
    need(subject.gradient_kind == "numeric", "its gradient is a declared one")
    told = 0
    for sample in found:
        gradients = _by_place(sample.run(), world)
        for at in sample.active:
            other = world.try_call(with_a_zero, sample, at, gradients[at])
            taken = world.try_call(_taken_finitely, other, world) if other else None
            if taken is None:
                continue
            told += 1
            run, found_there = taken
            for place, gradient in found_there.items():
                _expect_finite(world, run, place, gradient)
    need(told, "it takes no sample with a zero")


def _taken_finitely(sample: SampleCall, world: World) -> tuple[Run, dict[int, torch.Tensor | None]] | None:
    """The call and its gradients, where its results are finite on every rank; None where not."""
    run = sample.run()
    finite = bool(run.outputs) and all(bool(dense(output.detach()).isfinite().all()) for output in run.outputs)
    return (run, _by_place(run, world)) if all(world.exchange(finite)) else None


def _expect_finite(world: World, run: Run, at: int, gradient: torch.Tensor | None) -> None:
    """Expect a gradient of finite numbers, unless differences tell no derivative where it has none."""
    value = run.sample.values[at].detach()
    wrong = _first_not_finite(gradient) if gradient is not None and is_strided(value) else None
    if not any(world.exchange(wrong is not None)):
        return
    along = torch.zeros_like(value, memory_format=torch.contiguous_format)
    if wrong is not None:
        along.view(-1)[wrong] = typical(value)
    slope = slope_along(world, run, run.cotangents(world), at, gradient, along, _working_epsilon(world, run))
    if wrong is None or gradient is None or slope.verdict != "differs":
        return
    place = torch.unravel_index(torch.tensor(wrong), value.shape)
    is_alone = world.size == 1 and not value.dtype.is_complex
    told = f"{slope.numeric / typical(value):.6g}" if is_alone else "a finite number"
    raise Deviation(
        f"gradient of {run.sample.name(at)}, where results are finite",
        f"{dense(gradient).reshape(-1)[wrong].item()} at {[int(each) for each in place]}",
        f"{told} by differences of forward",
        "backward divides by what may be zero, or takes its logarithm",
    )


def _first_not_finite(gradient: torch.Tensor) -> int | None:
    finite = dense(gradient).isfinite().reshape(-1)
    return None if bool(finite.all()) else int(finite.byte().argmin())


def _by_place(run: Run, world: World) -> dict[int, torch.Tensor | None]:
    return dict(zip(run.leaves, run.gradients(run.cotangents(world)), strict=True))


def _is_stable(sample: SampleCall, world: World) -> bool | None:
    """Whether steps as long as those of the differences leave the gradients nearly as they are; None where not.

    Among many elements some are so near a kink, such as a tie of a sort, that no differences tell a derivative.
    """
    run = sample.run()
    cotangents = run.cotangents(world)
    right = run.filled(run.gradients(cotangents))
    step = _working_epsilon(world, run) ** (1 / 3)
    moved = [_gradients(point, cotangents) for point in shaken(sample, world, step)]
    return all(farthest(gradients, right)[0] <= STABLE for gradients in moved) or None


def _expect_derivative(sample: SampleCall, world: World, is_derived: bool = False) -> dict[int, bool]:
    """Expect the gradient of every input to be what differences say; for each, whether the differences could tell."""
    told: dict[int, bool] = {}
    unclear = list(sample.active)
    for point in nearby(sample, world):
        run = point.run()
        cotangents = run.cotangents(world)
        gradients = dict(zip(run.leaves, run.gradients(cotangents), strict=True))
        tried, unclear = unclear, []
        for at in tried:
            if gradients[at] is None and at not in sample.top:
                continue  # autograd does not look into containers
            slopes = _slopes(world, run, cotangents, at, gradients[at], is_derived)
            wrong = next((slope for slope in slopes if slope.verdict == "differs"), None)
            if wrong and _is_shown_whole(world, point.values[at]):
                _same_gradient(run, cotangents, at, gradients[at], wrong)
            expect.that(
                wrong is None,
                f"slope of the loss along a random direction of {point.name(at)}",
                wrong and f"{wrong.analytic:.9g} by backward",
                wrong and f"{wrong.by_differences}, by differences of forward",
            )
            told[at] = told.get(at, False) or any(slope.verdict == "agrees" for slope in slopes)
            if any(slope.verdict == "unclear" for slope in slopes):
                unclear.append(at)
        if not unclear:
            break
    return told


def _slopes(
    world: World, run: Run, cotangents: list[torch.Tensor], at: int, gradient: torch.Tensor | None, is_derived: bool
) -> list[Comparison]:
    """The gradient of one input compared with differences of forward, along each of some directions.

    What differs at a derived sample is asked again with the long steps that single precision inside takes.
    """
    value = run.sample.values[at].detach()
    eps = _working_epsilon(world, run)

    def along(direction: torch.Tensor) -> Comparison:
        found = slope_along(world, run, cotangents, at, gradient, direction, eps)
        if is_derived and found.verdict == "differs":
            again = slope_along(world, run, cotangents, at, gradient, direction, max(eps, SINGLE))
            return again if again.verdict == "agrees" else found
        return found

    return [along(kept_symmetric(run, at, direction, gradient)) for direction in directions(world, value)]


def _working_epsilon(world: World, run: Run) -> float:
    """The machine epsilon of a call: that of single precision where all its results fit in there, wherever it is."""
    moved = next(shaken(run.sample, world, SINGLE)).run(needed=run.leaves).outputs
    fits = all(bool((_in_single(output) == output).all()) for output in moved if is_strided(output))
    eps = epsilon([*run.outputs, *run.leaves.values()])
    return max(eps, SINGLE) if all(world.exchange(fits)) else eps


def _in_single(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to(torch.complex64 if tensor.dtype.is_complex else torch.float32).to(tensor.dtype)


def _is_shown_whole(world: World, value: torch.Tensor) -> bool:
    return value.numel() <= SHOWN_WHOLE and is_strided(value) and world.size == 1


def _same_gradient(
    run: Run, cotangents: list[torch.Tensor], at: int, gradient: torch.Tensor | None, slope: Comparison
) -> None:
    """Show both gradients whole, where that tells them apart."""
    expected = by_differences(run, cotangents, at)
    what = f"gradient of {run.sample.name(at)}"
    if gradient is None:
        raise Deviation(what, "None: no gradient at all", expect.shown(expected), _forgotten(run.sample))
    actual, right = expect.shown_apart(gradient, expected)
    raise Deviation(
        f"{what}{expect.beyond_start(gradient, expected)}",
        actual,
        f"{right} by differences of forward; slope along a direction {slope.analytic:.9g}, {slope.by_differences}",
        likely_mistake(run, cotangents, at, gradient, expected),
    )


def _forgotten(sample: SampleCall) -> str:
    """What to say of a backward that returned nothing but None."""
    if sample.subject.function is None:
        return ""
    recorded, notes = recording(sample.subject, "backward", "vjp")
    differentiate(replace(sample, subject=recorded))
    returned = [noted.returned for name in ("backward", "vjp") for noted in notes.of(name)]
    return "a backward without its return" if returned and all(value is None for value in returned) else ""


@clause("Function.backward.gradient")
def test_gradient_is_the_declared_one(subject: Subject, world: World) -> None:
    """The gradient of every input is what the subject's formula says, given the same random numbers."""
    need(subject.gradient_kind != "spec", OWN)
    need(subject.gradient_kind == "declared", "no formula is declared: the gradient is judged by differences")
    for sample, run in differentiated(subject, world):
        cotangents = run.cotangents(world)
        actual = dict(zip(run.leaves, run.filled(run.gradients(cotangents)), strict=True))
        precision = working_epsilon(sample, world)
        for at, right in declared_gradients(run, cotangents).items():
            what = f"gradient of {sample.name(at)}, against the declared formula"
            expect.close(actual[at], right, what, precision=precision)


@clause("Function.backward.gradient")
def test_gradient_is_linear_in_the_incoming_ones(subject: Subject, world: World) -> None:
    """A loss scaled up scales every gradient; the gradients for each output alone add up to those for all."""
    need(subject.gradient_kind != "spec", OWN)
    need(subject.gradient_kind == "numeric", "its gradient is a declared one")
    tried = 0
    for sample in [in_double(sample) for sample, _ in differentiated(subject, world)]:
        if draws(sample, world):  # asked first: calls in between would be a matter of forward.calls-independent
            continue
        run = sample.run()
        if epsilon([*run.outputs, *run.leaves.values()]) > SINGLE:
            continue
        cotangents = run.cotangents(world)
        plain = run.filled(run.gradients(cotangents))
        scaled = _gradients(sample, [LOSS_SCALE * cotangent for cotangent in cotangents])
        alone = [_gradients(sample, others) for others in _one_at_a_time(cotangents)]
        tried += 1
        large = [LOSS_SCALE * gradient for gradient in plain]
        _expect_linear(run, scaled, large, f"incoming gradients {LOSS_SCALE:g} times as large")
        _expect_linear(run, [sum(each) for each in zip(*alone, strict=True)], plain, "each output alone, added up")
    need(tried, "it draws random numbers, or takes half precision alone")


def _one_at_a_time(cotangents: list[torch.Tensor]) -> list[list[torch.Tensor]]:
    """The gradients of the outputs, with zeros in place of all but one; for each of them."""
    places = range(len(cotangents))
    return [[one if at == kept else torch.zeros_like(one) for at, one in enumerate(cotangents)] for kept in places]


def _gradients(sample: SampleCall, cotangents: list[torch.Tensor]) -> list[torch.Tensor]:
    run = sample.run()
    return [gradient.detach().clone() for gradient in run.filled(run.gradients(cotangents))]


def _expect_linear(run: Run, actual: list[torch.Tensor], right: list[torch.Tensor], what: str) -> None:
    if not all(bool(gradient.isfinite().all()) for gradient in [*actual, *right]):
        return  # beyond the range of the dtype, or of the function
    gap, place = farthest(actual, right)
    name = f"gradient of {run.sample.name(list(run.leaves)[place])}, {what}"
    one, other = expect.shown_apart(actual[place], right[place])
    expect.that(gap <= NEAR, name, one, f"{other}: a gradient is linear in the incoming ones")
