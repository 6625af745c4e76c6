"""``backward`` where a flag, a word or a member of an enumeration is another one than in the samples."""

from __future__ import annotations

from conformance.kit.calls import SampleCall, differentiated, in_double
from conformance.kit.deviations import Deviation, need
from conformance.kit.marks import clause
from conformance.kit.numerics.gradient_checks import expect_derivative, gradients_of
from conformance.kit.subject import Subject
from conformance.kit.tensors import same_values
from conformance.kit.variations.choices import NONE, has_meant_derivative, jumps_newly, other_choices
from conformance.kit.variations.variants import OWN, is_stable
from conformance.kit.world import World

UNHEEDED = "backward does not ask for what forward asks for: its gradient is that of the sample as it is"


@clause("Function.backward.gradient")
def test_gradient_at_other_choices(subject: Subject, world: World) -> None:
    """With a flag turned over or another word, the gradient is what differences of forward say there.

    Not judged is what may be no derivative on purpose: where forward gives the same with the other flag, where no
    gradient is left, where there is one for what forward does not follow, and where forward jumps.
    """
    need(subject.gradient_kind != "spec", OWN)
    need(subject.gradient_kind == "numeric", "its gradient is a declared one")
    need(world.size == 1, "checked on one rank only")
    found = [sample for sample, _ in differentiated(subject, world) if other_choices(sample)]
    need(found, NONE)
    told = 0
    for sample in map(in_double, found):  # also one that draws random numbers: with another choice it may draw none
        if world.try_call(expect_derivative, sample, world) is None:
            continue
        for other in other_choices(sample):
            if not world.try_call(has_meant_derivative, sample, other, world):
                continue
            if not world.try_call(is_stable, other, world):
                continue
            told += _expect_derivative(sample, other, world)
    need(told, "with no other choice it is known to be meant as a derivative, or its gradient is already wrong")


def _expect_derivative(sample: SampleCall, other: SampleCall, world: World) -> int:
    """Expect it where another choice is made, and say where the gradient is that of the first; how many were told."""
    try:
        return sum(expect_derivative(other, world, is_derived=True).values())
    except Deviation as deviation:
        if jumps_newly(sample, other, world):
            return 0
        deviation.likely = UNHEEDED if _are_alike(sample, other, world) else deviation.likely
        raise
    except Exception:  # the subject need not take it
        return 0


def _are_alike(sample: SampleCall, other: SampleCall, world: World) -> bool:
    """Whether the same incoming gradients give the same with both choices."""
    cotangents = other.run().cotangents(world)
    try:
        pairs = zip(*(gradients_of(each, cotangents) for each in (sample, other)), strict=True)
    except Exception:  # results of another shape
        return False
    return all(same_values(one, two) for one, two in pairs)
