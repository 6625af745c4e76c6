"""Calls that know nothing of one another, however they differ: in shapes, in numbers, in gradients, in time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice, pairwise

import torch

from conformance.kit import (
    Deviation,
    Probe,
    Run,
    SampleCall,
    Subject,
    World,
    active_samples,
    clause,
    differentiated,
    expect,
    is_strided,
    need,
    same_values,
    seeds,
    share_memory,
)
from conformance.kit.numerics.derivatives import slope_along
from conformance.kit.numerics.nearby import random_direction
from conformance.kit.numerics.slopes import epsilon
from conformance.kit.numerics.triangles import kept_symmetric
from conformance.kit.sample_calls import copied, copied_by_name, names
from conformance.kit.tensors import freed
from conformance.kit.unwritten import unwritten_in
from conformance.kit.variations.axes_of_meaning import resizings
from conformance.kit.variations.axis import Pick
from conformance.kit.variations.meaning import meant
from conformance.kit.variations.options import choice
from conformance.kit.variations.variants import lengthened, with_distinct_values

#: How many inputs are moved, and sizes changed, one at a time.
MOVED, SIZES = 4, 4
NO_OTHERS = "forward accepts no other numbers than those of the sample"
OF_LAST_FORWARD = (
    "backward reads values of the last forward, kept on the class or in its module, instead of its own call's"
)
WRITTEN_AGAIN = "forward writes again into a tensor that an earlier call saved, such as a buffer on the class"
BY_IDENTITY = "a value is cached by the tensor's address or on the tensor, and used again"


@clause("Function.forward.calls-independent")
def test_calls_that_differ_do_not_mix(subject: Subject, world: World) -> None:
    """Two calls that differ in shapes, numbers or flags, both forwards first, give the same as each alone."""
    compared = 0
    for one, other in _pairs(subject, world):
        pair = (one, other)
        alone = [copied_by_name(sample.run(), world) for sample in pair]
        for order in ((0, 1), (1, 0)):
            runs = [sample.run() for sample in pair]
            if not compared and world.size == 1:  # of two buffers, used in turn, the first is written again
                other.run()
            with expect.no_error(
                f"both backwards of {one.label} and {other.label}, after both forwards",
                "gradients, as each call alone gives",
                _cause,
            ):
                together = {index: copied_by_name(runs[index], world) for index in order}
            compared += 1
            for index in (0, 1):
                among = f"{pair[index].label}, {'first' if order[0] == index else 'second'} of two backwards"
                for name in filter(together[index].__contains__, alone[index]):  # backward may free results
                    actual, right = together[index][name], alone[index][name]
                    expect.close(actual, right, f"{name} of {among} after two forwards that differ")
    need(compared, "there is one sample, and no other could be derived from it")


def _cause(error: Exception) -> str:
    return WRITTEN_AGAIN if "modified by an inplace operation" in str(error) else OF_LAST_FORWARD


def _pairs(subject: Subject, world: World) -> Iterator[tuple[SampleCall, SampleCall]]:
    """Samples that follow one another, and each sample with those derived from it."""
    given = [sample for sample, _ in differentiated(subject, world)]
    yield from pairwise(given)
    for sample in given:
        others = [_with_smaller_numbers(sample, world), lengthened(sample, world)]
        others += [_other_numbers(sample), *_other_sizes(sample, world)] if world.size == 1 else []
        for other in filter(None, others):
            results = world.try_call(lambda other: copied(other.run(), world), other)
            # What a sample was not made for may be left unwritten: two calls then differ by what memory held before.
            if results and not (unwritten_in(other, world) and not unwritten_in(sample, world)):
                yield sample, other
        picks = choice(sample, world) if world.size == 1 else ()
        for other in (replace(pick.value(sample), label=f"{sample.label} with {pick}") for pick in picks):
            if world.try_call(lambda one, other: _are_repeatable(one, other, world) or None, sample, other):
                yield sample, other


def _other_sizes(sample: SampleCall, world: World) -> list[SampleCall | None]:
    """The sample with another size in all places that have it, one size at a time."""
    found: dict[str, Pick] = {}
    for pick in resizings(sample, world):
        found.setdefault(pick.axis, pick)
    made = ((pick, pick.value(sample)) for pick in islice(found.values(), SIZES))
    return [other and replace(other, label=f"{sample.label} with {pick}") for pick, other in made]


def _are_repeatable(sample: SampleCall, other: SampleCall, world: World) -> bool:
    """Whether calls that are over before the next one give the same again: no choice changes something for good."""
    first, second = ([copied(each.run(), world) for each in (sample, other)] for _ in range(2))
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


@clause("Function.forward.calls-independent")
def test_outputs_survive_the_next_call(subject: Subject, world: World) -> None:
    """The outputs of a call keep their values when the Function is called again."""
    found = []
    for sample in active_samples(subject, world):
        tensors = sample.run().tensors
        before = [tensor.detach().clone() for tensor in tensors]
        other = _with_smaller_numbers(sample, world)
        if other is None:
            continue
        later = other.run().tensors
        found += [(sample, index, *three) for index, three in enumerate(zip(before, tensors, later, strict=False))]
    need(found, NO_OTHERS)
    for sample, index, *three in found:
        what = f"output {index} of {sample.label}, after another call with other inputs"
        _expect_kept(what, "outputs share a buffer that every call writes", *three)


def _expect_kept(what: str, shared: str, old: torch.Tensor, new: torch.Tensor, later: torch.Tensor | None) -> None:
    """Expect a tensor to have its old values after a later call, which made another tensor."""
    if not same_values(old, new):
        raise Deviation(
            what, expect.shown(new), f"{expect.shown(old)}, as it was", shared if share_memory(new, later) else ""
        )


def _with_smaller_numbers(sample: SampleCall, world: World) -> SampleCall | None:
    """Return the sample with smaller numbers, or with reversed ones if those raise an error; None if both do."""
    values = {at: sample.values[at].detach() for at in sample.active}
    others = [{at: value * 0.75 for at, value in values.items()}]
    if all(map(is_strided, values.values())):
        others.append({at: value.flip(tuple(range(value.dim()))) for at, value in values.items()})
    same = (world.try_call(meant, sample, other) for other in others)
    found = next((other for other in same if other and world.try_call(other.run)), None)
    return found and replace(found, label=f"{sample.label} with smaller numbers")


@clause("Function.forward.calls-independent")
def test_a_gradient_survives_the_next_backward(probe: Probe) -> None:
    """A gradient that was returned keeps its values when another call is differentiated with other gradients."""
    first, second = (probe.sample.run() for _ in range(2))
    held = first.gradients(first.cotangents(probe.world))
    before = [None if gradient is None else gradient.detach().clone() for gradient in held]
    later = second.gradients(second.cotangents(probe.world, "another"))
    for at, old, new, other in zip(first.leaves, before, held, later, strict=True):
        if old is not None and new is not None:
            what = f"gradient of {probe.name(at)}, after the backward of another call"
            _expect_kept(what, "gradients share a buffer that every backward writes", old, new, other)


@clause("Function.forward.calls-independent")
def test_a_tensor_with_new_values_is_read_again(probe: Probe) -> None:
    """Called again with the same tensors, changed in place, it gives the same as for new tensors."""
    sample, world = probe.sample, probe.world
    numbers = {at: sample.values[at].detach() * 0.75 for at in sample.active}
    moved = probe.unless_refused("it accepts no other numbers", meant, sample, numbers)
    need(not probe.draws, "it draws random numbers")
    again = probe.unless_refused("it works in place", _again, sample, moved, world)
    run = moved.run()
    for name, actual, right in zip(names(run), again, copied(run, world), strict=True):
        expect.close(actual, right, f"{name} of {sample.label}, same tensors changed in place", likely=BY_IDENTITY)


def _again(sample: SampleCall, moved: SampleCall, world: World) -> list[torch.Tensor] | None:
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
    return copied(Run.of(moved, first.args, first.leaves), world)


@clause("Function.forward.calls-independent")
def test_a_gradient_follows_the_numbers(probe: Probe) -> None:
    """Called with other numbers, a gradient that stays the same to the last bit is that of the other numbers too.

    It may be the same if forward is linear. Elsewhere it was made of what an earlier call kept.
    """
    world, compared = probe.world, 0
    need(world.size == 1, "checked on one rank only: a call caches the same on each")
    is_numeric = probe.sample.subject.gradient_kind == "numeric"
    need(is_numeric, "its gradient is a declared one, or is defined by its spec")
    need(not probe.draws, "it draws random numbers, or accepts no other numbers")
    sample = with_distinct_values(probe.sample, world) or probe.sample
    run = sample.run()
    before = _gradients(run, cotangents := run.cotangents(world))
    for place, moved in _with_one_moved(sample):
        later = world.try_call(moved.run)
        gradients = world.try_call(_gradients, later, cotangents) if later else None
        if later is None or gradients is None:
            continue
        compared += 1
        for at in (at for at, gradient in gradients.items() if same_values(gradient, before[at])):
            verdicts = [_verdict(world, one, cotangents, at, gradients[at]) for one in (run, later)]
            is_earlier = verdicts == ["agrees", "differs"]
            if is_earlier and not _is_its_own(sample, place, moved, cotangents, at, gradients[at]):
                raise Deviation(
                    f"gradient of {sample.name(at)} after a call with other numbers in {sample.name(place)}",
                    f"{expect.shown(gradients[at])}, as in the earlier call",
                    "another gradient, as differences of forward show",
                    "a value is cached in an earlier call and used again",
                )
    need(compared, "it draws random numbers, or accepts no other numbers")


def _is_its_own(
    sample: SampleCall, place: int, moved: SampleCall, cotangents: list[torch.Tensor], at: int, gradient: torch.Tensor
) -> bool:
    """Whether a call right after one that gave another gradient gives it too: then it was made of that call's numbers.

    What was kept for good gives no other gradient, whatever the numbers of the same input are, and what was kept of the
    last call does not give this one again. Other inputs may be read while this one is not.
    """
    value = sample.values[place].detach()
    for number in [*_numbers_like(value), -value, value * 3]:
        other = meant(sample, {place: number})
        try:
            is_other = other and not same_values(_gradients(other.run(), cotangents)[at], gradient)
        except Exception:  # it need not take them
            continue
        if is_other:
            return same_values(_gradients(moved.run(), cotangents)[at], gradient)
    return False


def _with_one_moved(sample: SampleCall) -> Iterator[tuple[int, SampleCall]]:
    """The sample with one input made smaller, then turned around: masks change, symmetry and bounds stay."""
    for at in sample.active[:MOVED]:
        for other in _numbers_like(sample.values[at].detach()):
            if moved := meant(sample, {at: other}):
                yield at, moved


def _numbers_like(value: torch.Tensor) -> list[torch.Tensor]:
    return [value * 0.75, *([value.flip(tuple(range(value.dim())))] if is_strided(value) else [])]


def _gradients(run: Run, cotangents: list[torch.Tensor]) -> dict[int, torch.Tensor]:
    return dict(zip(run.leaves, run.filled(run.gradients(cotangents)), strict=True))


def _verdict(world: World, run: Run, cotangents: list[torch.Tensor], at: int, gradient: torch.Tensor) -> str:
    """Judge a gradient by differences, with steps long enough for internal single precision."""
    if at not in run.sample.top:
        return ""  # autograd does not look into containers
    along = kept_symmetric(run, at, random_direction(world, run.sample.values[at].detach()), gradient)
    eps = max(epsilon([*run.outputs, *run.leaves.values()]), torch.finfo(torch.float32).eps)
    return slope_along(world, run, cotangents, at, gradient, along, eps).verdict
