"""``jvp``: how many values it returns, and that they are the derivative in the direction of the tangents."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import torch

from conformance.kit import (
    NO_JVP,
    Deviation,
    NotApplicable,
    SampleCall,
    Skipped,
    Subject,
    World,
    active_samples,
    clause,
    differentiable,
    expect,
    in_double,
    many,
    need,
)
from conformance.kit.diagnosis import likely_cause
from conformance.kit.frames import told
from conformance.kit.numerics.differences import central
from conformance.kit.numerics.formula import declared_gradients, is_linear
from conformance.kit.numerics.nearby import points_near
from conformance.kit.numerics.slopes import (
    SlopeJudgement,
    compare_slope,
    epsilon,
    inner,
    jacobian_scale,
    paired,
    rounding_of_slopes,
)
from conformance.kit.observation.returned import explained
from conformance.kit.recording import recording
from conformance.kit.sample_calls import differentiate
from conformance.kit.variations.transforms import Direction, Tensors, outputs, tangents
from conformance.kit.variations.variants import with_distinct_values
from conformance.kit.variations.words import mentioned_by

#: What a jvp that raises may do wrong.
NESTED = "jvp uses forward mode itself, as torch.func.jvp does: PyTorch refuses that within dual_level; write a formula"
SAVED_FOR_BACKWARD = "forward calls save_for_backward alone: in jvp, ctx.saved_tensors has what save_for_forward got"
_UNREACHED = "the call does not reach jvp of the class under test"


@clause("Function.jvp.accepts")
def test_it_takes_one_value_for_each_input(subject: Subject, world: World) -> None:
    """Jvp has room for ctx and as many values as forward had inputs."""
    need(subject.defines("jvp"), NO_JVP)
    recorded, notes = recording(subject, "jvp")
    for sample in active_samples(recorded, world):
        for direction in tangents_for(sample, world):
            world.try_call(tangents, sample, direction)
    for refused in notes.refused:
        raise refused.accusing("jvp", "ctx, and one for each input of forward")
    need(notes.of("jvp"), _UNREACHED)


@clause("Function.jvp.count")
def test_one_value_for_each_output(subject: Subject, world: World) -> None:
    """A call of jvp returns one value for each output of forward."""
    need(subject.defines("jvp"), NO_JVP)
    recorded, notes = recording(subject, "forward", "jvp")
    error: Exception | None = None
    for sample in active_samples(recorded, world):
        for direction in tangents_for(sample, world):
            try:
                tangents(sample, direction)
            except Exception as raised:  # PyTorch refuses a wrong count: what was returned says it better
                error = error or raised
    returned = notes.of("jvp")
    need(error is None or returned, "jvp raises; see Function.jvp.tangent")
    need(returned, _UNREACHED)
    for forward, jvp in zip(notes.of("forward"), returned, strict=False):
        is_list = isinstance(jvp.returned, list)
        expect.that(not is_list, "jvp: a value, or a tuple of values", "a list", "a tuple")
        actual, expected = len(many(jvp.returned)), len(many(forward.returned))
        expect.that(actual == expected, "number of values that jvp returns, one for each output", actual, expected)


@clause("Function.jvp.tangent")
def test_tangent_is_the_directional_derivative(subject: Subject, world: World) -> str:
    """The tangent of every output is what differences of forward say, along several directions."""
    need(subject.defines("jvp"), NO_JVP)
    need(subject.gradient_kind == "numeric", "its derivative is intended to differ from that of forward")
    agreed, unclear = 0, []
    with _explained(subject, world):
        for sample in _in_double(subject, world):
            before = agreed
            for point in points_near(sample, world):
                clear = []
                for direction in tangents_for(point, world):
                    found = list(_compared(point, world, direction))
                    for place, tangent, seen in found:
                        _expect_tangent(point, direction, place, tangent, seen)
                    clear.append(all(seen.verdict == "agrees" for _, _, seen in found))
                agreed += any(clear)
                if all(clear):
                    break
            unclear += [sample.label] * (agreed == before)
    need(agreed, "not smooth enough near any sample to measure a derivative by finite differences")
    return f"tangents of {', '.join(unclear)} not judged: finite differences are inconclusive" if unclear else ""


def _expect_tangent(
    point: SampleCall, direction: Direction, place: int, tangent: torch.Tensor, seen: SlopeJudgement
) -> None:
    """Expect the tangent of an output to be no other than differences of forward say."""
    if seen.verdict == "differs":
        expected = _by_differences(point, direction, place)
        raise Deviation(
            f"tangent of output {place} of {point.label}{_of(point, direction)}; its slope is "
            f"{seen.analytic:.9g} by jvp and {seen.by_differences} by differences of forward",
            *expect.shown_apart(tangent, expected),
            likely_cause(tangent, expected, {}),
        )


def _compared(
    point: SampleCall, world: World, direction: Direction
) -> Iterator[tuple[int, torch.Tensor, SlopeJudgement]]:
    """Every output's tangent along a direction, and how it compares with differences of forward."""
    actual, ends = tangents(point, direction), _moved(point, direction, 0.0)
    for place, (output, tangent) in enumerate(zip(point.run().tensors, actual, strict=True)):
        if output.requires_grad and differentiable(output):
            weight = world.tensor(world.rank, tuple(output.shape), output.dtype, "weight", place)

            def loss(step: float, place: int = place, weight: torch.Tensor = weight) -> torch.Tensor:
                return paired([weight], [_moved(point, direction, step)[place]])

            rounding, size = epsilon([*ends, *direction.values()]), jacobian_scale([weight], direction.values())
            yield place, tangent, compare_slope(world, loss, inner(weight, tangent), rounding, size)


def _moved(point: SampleCall, direction: Direction, step: float) -> Tensors:
    return outputs(point, {at: point.values[at].detach() + step * u for at, u in direction.items()})


def _by_differences(point: SampleCall, direction: Direction, place: int) -> torch.Tensor:
    step = epsilon(list(direction.values())) ** (1 / 3)
    right, left = (_moved(point, direction, sign * step)[place].detach() for sign in (1, -1))
    slope: torch.Tensor = central(right, left, step)
    return slope


@clause("Function.jvp.tangent")
def test_jvp_and_backward_share_one_jacobian(subject: Subject, world: World) -> None:
    """For every direction u and cotangent v, v times the tangent of u is u times the gradient of v."""
    need(subject.defines("jvp"), NO_JVP)
    need(subject.defines("backward") or subject.defines("vjp"), "the class defines no backward to agree with")
    need(world.size == 1, "for several ranks the gather's own clauses judge its tangent")
    with _explained(subject, world):
        for sample in _in_double(subject, world):
            for direction in tangents_for(sample, world):
                actual = tangents(sample, direction)
                run = sample.run()
                cotangents = run.cotangents(world)
                need(cotangents, "no output of the sample requires grad")
                need(is_linear(run, cotangents), "its declared gradient is a product with no Jacobian")
                gradients = _gradients(sample, cotangents)
                pairs = [(v, actual[place]) for v, place in zip(cotangents, run.places, strict=True)]
                forward = sum(inner(v, t) for v, t in pairs)
                backward = sum(inner(gradients[at], u) for at, u in direction.items())
                scale = 1 + abs(backward) + sum(float((v.abs() * t.abs()).sum()) for v, t in pairs)
                expect.that(
                    abs(forward - backward) <= rounding_of_slopes([*actual, *cotangents]) * scale,
                    f"tangents of {sample.label}, multiplied with gradients of the outputs{_of(sample, direction)}",
                    f"{forward:.9g} by jvp",
                    f"{backward:.9g} by {'the declared formula' if sample.subject.formula else 'backward'}",
                )


@contextmanager
def _explained(subject: Subject, world: World) -> Iterator[None]:
    """Say what is wrong with a jvp that raises, or that returns what PyTorch refuses, as far as it is known."""
    try:
        with explained(subject, world, "jvp", partial(_pushed, world=world)):
            yield
    except (Deviation, NotApplicable, Skipped):
        raise
    except Exception as error:
        if cause := _cause(subject, error):
            raise Deviation("jvp", told(error), "a tangent for each output", cause) from error
        raise


def _cause(subject: Subject, error: Exception) -> str:
    """The likely cause of what jvp raises; empty if none is known."""
    if "Nested forward mode" in str(error):
        return NESTED
    finds_none = isinstance(error, ValueError | IndexError) and str(error).endswith(("got 0)", "out of range"))
    mentioned = mentioned_by(subject.function).members
    return SAVED_FOR_BACKWARD if finds_none and mentioned and "save_for_forward" not in mentioned else ""


def _pushed(sample: SampleCall, world: World) -> None:
    """Send a tangent through a sample."""
    tangents(sample, next(tangents_for(sample, world)))


def _in_double(subject: Subject, world: World) -> list[SampleCall]:
    """The samples in double precision if forward, backward and jvp all take it, and again with equal numbers apart."""

    def use(sample: SampleCall) -> None:
        differentiate(sample)
        for direction in tangents_for(sample, world):
            tangents(sample, direction)

    given = [in_double(sample, use) for sample in active_samples(subject, world)]
    return [*given, *filter(None, (with_distinct_values(sample, world) for sample in given))]


def tangents_for(sample: SampleCall, world: World) -> Iterator[Direction]:
    """Give a tangent to all differentiable inputs at once, then to one at a time."""
    every = {
        at: world.tensor(world.rank, tuple(sample.values[at].shape), sample.values[at].dtype, "direction", at)
        for at in sample.active
        if differentiable(sample.values[at])
    }
    yield every
    if len(every) > 1:
        for at, tangent in every.items():
            yield {at: tangent}


def _gradients(sample: SampleCall, cotangents: list[torch.Tensor]) -> dict[int, torch.Tensor | None]:
    run = sample.run()
    if sample.subject.gradient_kind == "declared":
        return dict(declared_gradients(run, cotangents))
    return dict(zip(run.leaves, run.gradients(cotangents), strict=True))


def _of(sample: SampleCall, direction: Direction) -> str:
    if len(direction) == len(sample.active):
        return ""
    return f", with a tangent for {sample.name(next(iter(direction)))} alone"
