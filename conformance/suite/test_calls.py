"""Calls that know nothing of one another, however they differ: in shapes, in numbers, in gradients, in time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

import torch

from conformance.kit import expect, seeds
from conformance.kit.calls import Run, SampleCall, differentiated
from conformance.kit.deviations import Deviation, need
from conformance.kit.marks import clause
from conformance.kit.numerics.derivatives import slope_along
from conformance.kit.numerics.nearby import direction
from conformance.kit.numerics.slopes import Comparison, epsilon
from conformance.kit.numerics.triangles import kept_symmetric
from conformance.kit.subject import Subject
from conformance.kit.tensors import freed, is_strided, same_values, share_memory
from conformance.kit.unwritten import unwritten_in
from conformance.kit.variations.choices import other_choices
from conformance.kit.variations.meaning import meant
from conformance.kit.variations.variants import draws, longer, moved_apart
from conformance.kit.world import World

#: How many inputs are moved, one at a time.
MOVED = 4
KEPT = "backward reads what the last forward left on the class or in its module, and not its own call's"
BY_IDENTITY = "something is kept by the tensor's address or on the tensor, and found again"


@clause("Function.forward.calls-independent")
def test_calls_that_differ_do_not_mix(subject: Subject, world: World) -> None:
    """Two calls that differ in shapes, numbers or flags, both forwards first, give what each gives alone."""
    compared = 0
    for one, other in _pairs(subject, world):
        pair = (one, other)
        alone = [_results(sample.run(), world) for sample in pair]
        for order in ((0, 1), (1, 0)):
            runs = [sample.run() for sample in pair]
            with expect.no_error(
                f"both backwards of {one.label} and {other.label}, after both forwards",
                "gradients, as each call alone gives",
                lambda _: KEPT,
            ):
                together = {index: _results(runs[index], world) for index in order}
            compared += 1
            for index in (0, 1):
                among = f"{pair[index].label}, {'first' if order[0] == index else 'second'} of two backwards"
                for name, actual, right in zip(_names(runs[index]), together[index], alone[index], strict=True):
                    expect.close(actual, right, f"{name} of {among} after two forwards that differ")
    need(compared, "one sample, from which no other one could be derived")


def _pairs(subject: Subject, world: World) -> Iterator[tuple[SampleCall, SampleCall]]:
    """Samples that follow one another, and each sample with those derived from it."""
    given = [sample for sample, _ in differentiated(subject, world)]
    yield from pairwise(given)
    for sample in given:
        for other in filter(None, (longer(sample, world), _other_numbers(sample) if world.size == 1 else None)):
            results = world.try_call(lambda other: _results(other.run(), world), other)
            # What a sample was not made for may be left unwritten: two calls then differ by what memory held before.
            if results and not (unwritten_in(other, world) and not unwritten_in(sample, world)):
                yield sample, other
        for other in other_choices(sample) if world.size == 1 else ():
            if world.try_call(lambda one, other: _are_repeatable(one, other, world) or None, sample, other):
                yield sample, other


def _are_repeatable(sample: SampleCall, other: SampleCall, world: World) -> bool:
    """Whether calls that are over before the next one give the same again: no choice changes something for good."""
    first, second = ([_results(each.run(), world) for each in (sample, other)] for _ in range(2))
    pairs = [pair for one, two in zip(first, second, strict=True) for pair in zip(one, two, strict=True)]
    return all(same_values(one, two) for one, two in pairs)


def _other_numbers(sample: SampleCall) -> SampleCall | None:
    """The sample with other fractions among its arguments. Whole numbers may be sizes, which it may not check."""
    values = tuple(_other(value) if type(value) is float else value for value in sample.values)
    changed = any(type(value) is float for value in values)
    return replace(sample, values=values, label=f"{sample.label} with other numbers") if changed else None


def _other(number: float) -> float:
    """Half as much again and a quarter, or, if that is the same number, half of it."""
    other = number * 1.5 + 0.25
    return other if other != number else number / 2


def _results(run: Run, world: World) -> list[torch.Tensor]:
    """Copies of the outputs and of all gradients."""
    outputs = [tensor.detach().clone() for tensor in run.tensors if not freed(tensor)]
    gradients = run.filled(run.gradients(run.cotangents(world))) if run.outputs else []
    return [*outputs, *(gradient.clone() for gradient in gradients)]


def _names(run: Run) -> Iterator[str]:
    yield from (f"output {index}" for index, tensor in enumerate(run.tensors) if not freed(tensor))
    yield from (f"gradient of {run.sample.names[at]}" for at in run.leaves if run.outputs)


@clause("Function.forward.calls-independent")
def test_a_gradient_survives_the_next_backward(subject: Subject, world: World) -> None:
    """A gradient that was handed out keeps its values when another call is differentiated with other gradients."""
    for sample, _ in differentiated(subject, world):
        first, second = sample.run(), sample.run()
        held = first.gradients(first.cotangents(world))
        before = [None if gradient is None else gradient.detach().clone() for gradient in held]
        later = second.gradients(second.cotangents(world, "another"))
        for at, old, new, other in zip(first.leaves, before, held, later, strict=True):
            if old is not None and new is not None and not same_values(old, new):
                raise Deviation(
                    f"gradient of {sample.name(at)}, after the backward of another call",
                    expect.shown(new),
                    f"{expect.shown(old)}, as it was",
                    "gradients share a buffer that every backward writes" if share_memory(new, other) else "",
                )


@clause("Function.forward.calls-independent")
def test_a_tensor_with_new_values_is_read_again(subject: Subject, world: World) -> None:
    """Called again with the same tensors after they were changed in place, it gives what new tensors give."""
    compared = 0
    for sample, _ in differentiated(subject, world):
        moved = world.try_call(meant, sample, {at: sample.values[at].detach() * 0.75 for at in sample.active})
        if moved is None or draws(sample, world):
            continue
        again = world.try_call(_again, sample, moved, world)
        if not again:
            continue
        compared += 1
        run = moved.run()
        for name, actual, right in zip(_names(run), again[0], _results(run, world), strict=True):
            expect.close(actual, right, f"{name} of {sample.label}, same tensors changed in place", likely=BY_IDENTITY)
    need(compared, "it works in place or draws random numbers")


def _again(sample: SampleCall, moved: SampleCall, world: World) -> tuple[list[torch.Tensor]] | None:
    """Results and gradients of a second call with the very tensors of the first, which hold other values by then."""
    first = sample.run()
    tensors = {at: value for at, value in enumerate(first.values) if isinstance(value, torch.Tensor)}
    if any(map(freed, tensors.values())):
        return None  # to call it with such a tensor is to crash
    before = {at: (tensor._version, tensor.grad_fn) for at, tensor in tensors.items()}
    Run.of(sample, first.args, first.leaves)
    written = {at for at, tensor in tensors.items() if (tensor._version, tensor.grad_fn) != before[at]}
    if written.intersection(sample.active):
        return None
    with torch.no_grad():
        for at in written.union(sample.active):
            tensors[at].copy_(moved.values[at])
    seeds.seed(0)
    return (_results(Run.of(moved, first.args, first.leaves), world),)


@clause("Function.forward.calls-independent")
def test_a_gradient_follows_the_numbers(subject: Subject, world: World) -> None:
    """Called with other numbers, a gradient that stays the same to the last bit is that of the other numbers too.

    It may be the same if forward is linear. Elsewhere it was made of what an earlier call kept.
    """
    for stale in _stale(subject, world):
        if not _is_its_own(stale, world):
            raise Deviation(
                f"gradient of {stale.name} after a call with other numbers in {stale.moved_name}",
                f"{expect.shown(stale.gradient)}, as in the earlier call",
                "another one, as differences of forward show",
                "something is kept from an earlier call and read again",
            )


@clause("Function.backward.gradient")
def test_gradient_is_right_for_other_numbers(subject: Subject, world: World) -> None:
    """A gradient that is the same for other numbers is theirs too, if no call has to come first for it.

    A mask that backward forgets shows only if it masks something.
    """
    for stale in _stale(subject, world):
        if _is_its_own(stale, world):
            raise Deviation(
                f"gradient of {stale.name} with other numbers in {stale.moved_name}",
                f"{expect.shown(stale.gradient)}, as before; its slope along a random direction is "
                f"{stale.slope.analytic:.9g}",
                f"another one: the slope is {stale.slope.by_differences} by differences of forward",
            )


@dataclass(frozen=True)
class _Stale:
    """A gradient that stayed the same to the last bit, and is right for the first numbers alone."""

    sample: SampleCall
    at: int
    gradient: torch.Tensor
    moved_at: int
    moved: SampleCall
    cotangents: list[torch.Tensor]
    slope: Comparison

    @property
    def name(self) -> str:
        return self.sample.name(self.at)

    @property
    def moved_name(self) -> str:
        return self.sample.name(self.moved_at)


def _stale(subject: Subject, world: World) -> Iterator[_Stale]:
    """Every gradient that was right, and is no longer for other numbers, for which it is the same to the last bit."""
    need(world.size == 1, "checked on one rank only: what a call keeps, it keeps on each")
    need(subject.gradient_kind == "numeric", "its gradient is a declared one, or its spec says what it is")
    compared = 0
    for given, _ in differentiated(subject, world):
        if draws(given, world):
            continue
        sample = moved_apart(given, world) or given
        run = sample.run()
        cotangents = run.cotangents(world)
        before = dict(zip(run.leaves, run.filled(run.gradients(cotangents)), strict=True))
        for moved_at, moved in _with_one_moved(sample):
            later = world.try_call(_with, moved, cotangents)
            if later is None:
                continue
            compared += 1
            for at, gradient in later.gradients.items():
                if not same_values(gradient, before[at]):
                    continue
                then, now = (_compared(world, one, cotangents, at, gradient) for one in (run, later.run))
                if then and now and (then.verdict, now.verdict) == ("agrees", "differs"):
                    yield _Stale(sample, at, gradient, moved_at, moved, cotangents, now)
    need(compared, "it draws random numbers, or takes no other ones")


def _is_its_own(stale: _Stale, world: World) -> bool:
    """Whether a call right after one that gave another gradient gives it too: then it was made of that call's numbers.

    What was kept for good gives no other gradient, whatever the numbers of the same input are, and what was kept of the
    last call does not give this one again. Other inputs may be read while this one is not.
    """
    value = stale.sample.values[stale.moved_at].detach()
    turned = [value.flip(tuple(range(value.dim())))] if is_strided(value) else []
    for number in [value * 0.75, *turned, -value, value * 3]:
        moved = meant(stale.sample, {stale.moved_at: number})
        other = world.try_call(_with, moved, stale.cotangents) if moved else None
        if other is None or same_values(other.gradients[stale.at], stale.gradient):
            continue
        again = _with(stale.moved, stale.cotangents)
        return same_values(again.gradients[stale.at], stale.gradient)
    return False


def _with_one_moved(sample: SampleCall) -> Iterator[tuple[int, SampleCall]]:
    """The sample with one input made smaller, then turned around: masks change, symmetry and bounds stay."""
    for at in sample.active[:MOVED]:
        value = sample.values[at].detach()
        turned = [value.flip(tuple(range(value.dim())))] if is_strided(value) else []
        for other in (value * 0.75, *turned):
            if moved := meant(sample, {at: other}):
                yield at, moved


@dataclass(frozen=True)
class _Later:
    """A call and the gradients of its inputs."""

    run: Run
    gradients: dict[int, torch.Tensor]


def _with(sample: SampleCall, cotangents: list[torch.Tensor]) -> _Later:
    run = sample.run()
    return _Later(run, dict(zip(run.leaves, run.filled(run.gradients(cotangents)), strict=True)))


def _compared(
    world: World, run: Run, cotangents: list[torch.Tensor], at: int, gradient: torch.Tensor
) -> Comparison | None:
    """Judge a gradient by differences, with steps long enough for internal single precision; None if they cannot."""
    if at not in run.sample.top:
        return None  # autograd does not look into containers
    along = kept_symmetric(run, at, direction(world, run.sample.values[at].detach()), gradient)
    eps = max(epsilon([*run.outputs, *run.leaves.values()]), torch.finfo(torch.float32).eps)
    return slope_along(world, run, cotangents, at, gradient, along, eps)
