"""Judge a declared gradient away from the samples, where its formula speaks of what changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch

from conformance.kit import expect, tolerances
from conformance.kit.calls import SampleCall
from conformance.kit.deviations import Deviation, NotApplicable, Skipped, need
from conformance.kit.frames import raise_mistake_of_the_suite, told
from conformance.kit.numerics.formula import declared_gradients
from conformance.kit.probe import Probe
from conformance.kit.sample_calls import in_double
from conformance.kit.tensors import dense, is_arrangeable, same_values, to_double
from conformance.kit.traits import is_symmetric
from conformance.kit.variations.axis import Variation
from conformance.kit.variations.meaning import meant
from conformance.kit.varied_call import Refused

#: How often larger the numbers at the ends of an input are made, or incoming gradients: what clips them shows there.
STRETCH = 1000.0


def need_declared(probe: Probe) -> None:
    """End the test as not applicable unless the gradient is the declared one at the sample itself."""
    kind, world = probe.sample.subject.gradient_kind, probe.world
    need(kind == "declared", "no formula is declared: the gradient is judged by differences")
    need(world.once((probe.label, "declared"), lambda: _is_declared(probe)), "its gradient is another one already")


def _is_declared(probe: Probe) -> bool:
    try:
        _expect_equal(probe, _formula_at(probe))
    except (Deviation, NotApplicable):
        return False
    return True


def expect_declared_at(probe: Probe, variation: Variation) -> None:
    """Expect the gradient of another sample to be what the formula gives there.

    A formula that does not follow a number or an option may be right for that of the sample alone.

    Raises:
        Deviation: it is not.
        NotApplicable: forward or the formula does not take that sample, or the formula does not follow it.
    """
    there = probe.at(variation)
    right = _formula_at(there)
    if variation.of("number", "choice"):
        beside = _formula_at(probe.at(Variation(variation.of("size"))))
        need(not all(same_values(right[at], beside[at]) for at in right), "its formula does not follow that")
    _expect_equal(there, right)


def expect_declared_among_large_numbers(probe: Probe) -> None:
    """Expect the gradient to be what the formula gives if the largest and smallest number of one input are far larger.

    Raises:
        Deviation: it is not.
        NotApplicable: no input can be changed like that.
    """
    judged = 0
    for at in sorted(probe.sample.top.intersection(probe.sample.active)):
        stretched = _stretched(in_double(probe.sample), at)
        if stretched is None:
            continue
        there = Probe(probe.world, stretched, probe.explains)
        try:
            right = _formula_at(there)
        except NotApplicable:
            continue
        # What leaves the range of the dtype is no other gradient.
        if all(bool(dense(one).isfinite().all()) for one in there.gradients):
            _expect_equal(there, right)
            judged += 1
    need(judged, "it takes no such numbers, or its formula does not")


def expect_declared_for_a_larger_loss(probe: Probe) -> None:
    """Expect the gradient to be what the formula gives if the incoming ones are far larger.

    Raises:
        Deviation: it is not.
        NotApplicable: the formula gives no finite numbers for them.
    """
    there = Probe(probe.world, in_double(probe.sample), probe.explains)
    larger = [STRETCH * cotangent for cotangent in there.cotangents]
    right = _formula_at(there, larger)
    run = there.sample.run()
    actual = run.filled(run.gradients(larger))
    # What leaves the range of the dtype is no other gradient.
    need(all(bool(dense(one).isfinite().all()) for one in actual), "its gradients are not finite there")
    _expect_equal(there, right, actual, f" where incoming gradients are {STRETCH:g} times larger")


def _stretched(sample: SampleCall, at: int) -> SampleCall | None:
    value = sample.values[at].detach()
    if not is_arrangeable(value) or value.numel() < 2 or value.dtype.is_complex or is_symmetric(value):
        return None
    changed = value.clone(memory_format=torch.contiguous_format)
    for end in {int(value.reshape(-1).argmax()), int(value.reshape(-1).argmin())}:
        changed.view(-1)[end] *= STRETCH
    made = meant(sample, {at: [changed]})
    label = f"{sample.label} with its largest and smallest number {STRETCH:g} times larger in {sample.names[at]}"
    return made and replace(made, label=label, is_derived=True)


def _formula_at(probe: Probe, cotangents: list[torch.Tensor] | None = None) -> dict[int, torch.Tensor]:
    """Return the formula's gradients of a sample.

    Args:
        probe: the sample.
        cotangents: the incoming gradients, if not those of the plain call.

    Raises:
        NotApplicable: the Function or the formula does not take it, or a number of it is not finite.
    """
    try:
        run, given = probe.run, cotangents or probe.cotangents
    except Exception as error:  # of backward too, which Function.backward.any-input judges
        raise_mistake_of_the_suite(error)
        raise Refused(f"{probe.label}: {told(error)}") from error
    try:
        found = declared_gradients(run, given)
    except Skipped as error:
        raise NotApplicable(str(error)) from error
    need(all(bool(dense(one).isfinite().all()) for one in (*found.values(), *run.outputs)), "it is not finite there")
    return found


def _expect_equal(
    probe: Probe, right: dict[int, torch.Tensor], gradients: Sequence[torch.Tensor] | None = None, where: str = ""
) -> None:
    """Expect the declared gradients; a little apart is what a number costs that is kept in single precision."""
    actual = dict(zip(probe.run.leaves, gradients or probe.gradients, strict=True))
    precision = probe.epsilon_inside
    for at, value in right.items():
        what = f"gradient of {probe.name(at)}{where}, compared with the declared formula,"
        one, other = to_double(dense(actual[at])), to_double(dense(value))
        if one.shape != other.shape or not bool((one - other).norm() <= tolerances.MAY_BE_MEANT * other.norm()):
            expect.close(actual[at], value, what, precision=precision)
