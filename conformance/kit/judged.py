"""Judge a variation: by the derivative if it makes another sample, otherwise by the plain call."""

from __future__ import annotations

import math

import torch

from conformance.kit import expect, tolerances
from conformance.kit.calls import SampleCall
from conformance.kit.deviations import Deviation, NotApplicable, need
from conformance.kit.diagnosis import factor_of
from conformance.kit.numerics.derivatives import OTHER_GRADIENT, slope_along, unless_it_stops
from conformance.kit.numerics.gradient_checks import expect_derivative, expect_slope, result_epsilon
from conformance.kit.numerics.nearby import beside_special, perturbed, random_direction
from conformance.kit.numerics.slopes import epsilon
from conformance.kit.numerics.triangles import kept_symmetric
from conformance.kit.probe import Probe
from conformance.kit.tensors import dense, largest_finite, same_values, to_double
from conformance.kit.unwritten import unwritten_in
from conformance.kit.variations.axis import WHOLE, Variation
from conformance.kit.variations.choices import has_meant_derivative, has_surrogate, jumps_newly
from conformance.kit.variations.sizes import grows_as_a_whole, has_parts_that_broadcast, is_read
from conformance.kit.variations.variants import JUDGED_BY_SPEC, is_smooth_here, worst_error
from conformance.kit.varied_call import Observed
from conformance.kit.world import World

#: What PyTorch says of a gradient of another shape than its input.
INVALID = "returned an invalid gradient"
#: Why a loss of another scale may have gradients that are off by more than one factor.
STOPS_WITHIN = "backward stops within an absolute tolerance, or drops small numbers: make it relative to the gradient"
NOT_MEANT_THERE = "its gradient may not be meant as a derivative there"
_WRONG_ALREADY = "its gradient is no derivative at the sample itself; see Function.backward.gradient"


def need_numeric(probe: Probe) -> None:
    """End the test as not applicable unless the gradient is meant to be the derivative, and is it at the sample."""
    kind = probe.sample.subject.gradient_kind
    need(kind != "spec", JUDGED_BY_SPEC)
    need(kind == "numeric", "its gradient is a declared one")
    need(probe.world.once((probe.label, "right"), lambda: is_derivative(probe.sample, probe.world)), _WRONG_ALREADY)


def need_fine(probe: Probe) -> None:
    """End the test as not applicable if the call rounds coarsely inside, or at random: small numbers are lost."""
    need(not probe.draws, "it draws random numbers")
    need(probe.epsilon_inside <= tolerances.SINGLE, "it works in half precision inside")


def need_right(probe: Probe, variation: Variation) -> None:
    """End the test as not applicable unless the gradient is the derivative in a variation too.

    Raises:
        NotApplicable: it is not, or this is unknown.
    """
    need_numeric(probe)
    meaning = variation.without(*(pick.axis for pick in variation.of_the_call.picks))
    if meaning.picks:
        key = (probe.label, "right", str(meaning))
        need(probe.world.once(key, lambda: _is_right_at(probe, meaning)), "its gradient is no derivative there")


def _is_right_at(probe: Probe, variation: Variation) -> bool:
    try:
        expect_derivative_at(probe, variation)
    except Exception:
        return False
    return True


def is_derivative(sample: SampleCall, world: World) -> bool:
    """Whether differences tell that the gradient of a call is its derivative."""
    try:
        return any(expect_derivative(sample, world, is_explained=False).values())
    except Exception:
        return False


def expect_derivative_at(probe: Probe, variation: Variation) -> None:
    """Expect the gradient of another sample to be the derivative there.

    Raises:
        Deviation: it is not.
        NotApplicable: forward raises for that sample, or the gradient need not be a derivative there.
    """
    there, beside = probe.at(variation), _at_size(probe, variation)
    observed = _plain(probe, there, variation)
    need(observed.places, "no result of it is differentiated")
    need(all(bool(dense(one).isfinite().all()) for one in observed.results), "its results are not finite")
    if variation.of("size"):
        grows = any(there.sample.values[at].numel() > probe.sample.values[at].numel() for at in there.sample.active)
        need(not grows or is_read(probe.sample, there.sample), "forward does not use the added elements")
        need(is_smooth_here(there.sample, there.world), "its gradient jumps there")
        need(not (there.draws and has_surrogate(there.sample, there.world)), "it rounds at random")
    if variation.of("number", "choice"):
        need(_is_meant(beside, there), NOT_MEANT_THERE)
    if any(pick.at != WHOLE for pick in variation.of("value")):
        _expect_slopes(there, variation)
        return
    try:
        told = expect_derivative(there.sample, there.world, is_derived=True, is_explained=probe.explains)
    except Deviation as error:
        is_hard = variation.of("number", "choice") and jumps_newly(beside.sample, there.sample, there.world)
        need(not is_hard, "forward makes a hard decision there, and its gradient may be that of a soft one")
        error.likely = error.likely or OTHER_GRADIENT
        raise
    need(any(told.values()), "finite differences are inconclusive there")


def _at_size(probe: Probe, variation: Variation) -> Probe:
    """The sample at the size of a variation, without its other choices."""
    return probe.at(Variation(variation.of("size")))


def _is_meant(probe: Probe, there: Probe) -> bool:
    """Whether the gradient with another number or choice can be expected to be the derivative.

    Not if backward leaves memory unwritten there, such as rows that a list of lengths does not cover any more.
    """
    if unwritten_in(there.sample, there.world):
        return False
    pairs = zip(probe.sample.values, there.sample.values, strict=False)
    defaults = there.sample.values[len(probe.sample.values) :]
    changed = [*(one for one, other in pairs if one is not other), *defaults]
    if all(isinstance(one, torch.Tensor) for one in changed):
        return not all(map(same_values, probe.plain.results, there.plain.results))
    is_number = all(type(one) in {int, float, torch.Tensor} for one in changed)
    return has_meant_derivative(probe.sample, there.sample, there.world, is_number)


def _plain(probe: Probe, there: Probe, variation: Variation) -> Observed:
    """The plain call of another sample; a gradient of another shape than its input is no refusal of the author's.

    Unless forward may take the call only because its parts happen to broadcast, or an index says nothing.
    """
    try:
        return there.plain
    except RuntimeError as error:
        if INVALID in str(error) and _is_meant_to_fit(probe, there, variation):
            raise Deviation("backward", str(error), "gradients, since forward accepts the call") from error
        raise


def _is_meant_to_fit(probe: Probe, there: Probe, variation: Variation) -> bool:
    """Whether shapes that do not fit in backward are a mistake, since forward takes the call as it takes the sample."""
    if variation.of("size"):
        return grows_as_a_whole(probe.sample, there.sample) and is_read(probe.sample, there.sample)
    return not (variation.of("number") and has_parts_that_broadcast(there.sample))


def _expect_slopes(there: Probe, variation: Variation) -> None:
    """Expect right slopes along random directions that leave what is special: a zero, and numbers that are equal."""
    (pick,) = variation.of("value")
    world, sample = there.world, there.sample
    told = 0
    run = sample.run()
    cotangents = run.cotangents(world)
    gradients = dict(zip(run.leaves, run.gradients(cotangents), strict=True))
    for at, gradient in gradients.items():
        value = sample.values[at].detach()
        if at not in sample.top:
            continue  # Function.backward.gradient has tests of its own for it
        along = random_direction(world, value, "beside", at)
        # What is not finite is wrong where forward is smooth, and may be meant at a kink: that is to be crossed.
        is_finite = gradient is None or bool(dense(gradient).isfinite().all())
        along = beside_special(value, along) if at == pick.at and is_finite else along
        along = kept_symmetric(run, at, along, gradient)
        found = slope_along(world, run, cotangents, at, gradient, along, result_epsilon(world, run))
        found = unless_it_stops(found, world, run, cotangents, at, along)
        words = " that leaves zeros, and equal numbers equal" if is_finite else ""
        expect_slope(found, f"a direction of {there.name(at)}{words}")
        told += found.verdict == "agrees"
    need(told, "finite differences are inconclusive there")


def expect_same(probe: Probe, variation: Variation) -> None:
    """Expect the gradients of a call in a variation to be those of the plain call with the same numbers.

    Raises:
        Deviation: they are not, beyond what rounding may do.
        NotApplicable: forward raises, or rounds more than the comparison could detect.
    """
    is_drawn = variation.of("layout", "dtype", "gradient layout") and probe.at(variation).draws_anything
    need(not is_drawn, "the random numbers that it draws may depend on that")
    if variation.of("gradient scale"):
        need(not probe.draws, "it may round at random")
        meant = not variation.of("number", "choice") or _is_meant(_at_size(probe, variation), probe.at(variation))
        need(meant, NOT_MEANT_THERE)  # and it need not grow with the loss: it may be clipped
    actual, right = probe.go(variation), probe.equal_call(variation)
    with probe.at(variation).unless_noisy():
        expect_same_gradients(probe, variation, actual, right)


def expect_same_gradients(probe: Probe, variation: Variation, actual: Observed, right: Observed) -> None:
    """Expect the gradients that both calls have to be the same, but for rounding."""
    shapes, world = [[one.shape for one in call.results] for call in (actual, right)], probe.world
    need(all(world.exchange(shapes[0] == shapes[1])), "its results have another shape")
    rounds, worst = worst_error(actual.results, right.results) if right.results else (0.0, 0)
    lower = [torch.finfo(pick.value).eps for pick in variation.of("dtype") if pick.value.is_floating_point]
    if any(world.exchange(rounds > tolerances.OTHER_RESULTS)):
        is_of_layout = variation.of("layout") and not (lower or variation.of("needs"))  # see same-without-grad
        need(is_of_layout, "its results differ already, so gradients may")
        moved = _roughness(probe, variation, WHOLE, tolerances.SINGLE)
        need(rounds > tolerances.BEYOND_ROUNDING * moved, "rounding alone moves its results that far")
        one, two = expect.shown_apart(actual.results[worst], right.results[worst])
        raise Deviation(f"output {worst} of {probe.label}", one, f"{two}, as the plain call gives")
    scale = max((largest_finite(dense(one)) for one in right.gradients.values()), default=0.0)
    wrong = []
    for at, gradient in actual.gradients.items():
        other = right.gradients[at]
        least = max(tolerances.BESIDE_LARGEST * scale, usual_size(probe, variation, at, right))
        # A lower precision ends earlier; a larger loss takes more of a gradient there that is beyond it already.
        ends = gradient if lower else other
        is_beyond = bool(lower or variation.of("gradient scale")) and not bool(ends.isfinite().all())
        gap = 0.0 if is_beyond else _gap(gradient, other, least)
        eps = max([epsilon([gradient, other]), *lower])
        allowed = max(tolerances.of_the_same(eps), tolerances.BY_RESULTS * rounds)
        if not any(world.exchange(gap > allowed)):
            continue
        allowed = max(allowed, tolerances.BEYOND_ROUNDING * probe.epsilon_inside)
        if not any(world.exchange(gap > allowed)):
            continue
        rough = tolerances.BEYOND_ROUNDING * _roughness(probe, variation, at, max(eps, tolerances.SINGLE), least)
        # An iteration stops within an absolute tolerance, which leaves no error of one factor.
        may_stop = variation.of("gradient scale") and not _is_one_factor(gradient, other)
        is_alone = len(variation.picks) == 1  # where scales meet rounding, a few steps may be missing
        stops = tolerances.MAY_BE_MEANT * (1 if is_alone else tolerances.BEYOND_ROUNDING) if may_stop else 0.0
        allowed = max(allowed, rough, stops)
        wrong += [(at, gap, allowed, STOPS_WITHIN if may_stop else "")] if gap > allowed else []
    for at, gap, allowed, likely in wrong:
        one, two = expect.shown_apart(actual.gradients[at], right.gradients[at])
        far = f"off by {gap:.2g} of its size; {allowed:.2g} is allowed" if math.isfinite(gap) else "not finite"
        raise Deviation(f"gradient of {probe.name(at)}, {far}", one, f"{two}, as the plain call gives", likely)


def _is_one_factor(actual: torch.Tensor, right: torch.Tensor) -> bool:
    """Whether a gradient of several numbers is the right one times a factor, to a twentieth of the error."""
    one, other = to_double(actual), to_double(right)
    factor = factor_of(one, other)
    return factor is not None and bool((one - factor * other).norm() <= (one - other).norm() / 20)


def usual_size(probe: Probe, variation: Variation, at: int, right: Observed) -> float:
    """Return the least size of a gradient to compare with, for those that are next to nothing in a variation.

    What cancels out at another size, as attention with many columns or the sum of a large grid does, is the rounding of
    its terms in a lower precision; for ones in place of random numbers terms may cancel out, as those of softmax do.
    """
    there = probe.at(variation)
    is_lower = any(pick.value.is_floating_point for pick in variation.of("dtype"))
    grown = max(1.0, there.sample.values[at].numel() / max(1, probe.sample.values[at].numel()))
    elements = [max(1, sum(one.numel() for one in call.results)) for call in (right, probe.plain)]
    terms = max(grown, elements[0] / elements[1] / grown)
    rounded = terms**0.5 * largest_finite(dense(probe.plain.gradients[at])) if is_lower else 0.0
    has_other_numbers = variation.of("gradient form")
    return max(rounded, largest_finite(dense(there.plain.gradients[at])) if has_other_numbers else 0.0)


def _gap(actual: torch.Tensor, right: torch.Tensor, least: float) -> float:
    """The largest difference of two gradients, next to the size of the right one, or to the least that counts.

    Where the right one is not finite, as next to the edge of a domain, nothing is compared.
    """
    if actual.shape != right.shape or not right.numel():
        return 0.0
    one, other = to_double(actual), to_double(right)
    apart = (one - other).abs()[other.isfinite()]
    if not bool(apart.isfinite().all()):
        return math.inf
    size, difference = max(largest_finite(other), least), largest_finite(apart)
    return difference / size if size else float(difference > 0)


def _roughness(probe: Probe, variation: Variation, at: int, eps: float, least: float = 0.0) -> float:
    """How far rounding alone moves the gradient of an input, next to its size; that of all results for the whole."""
    right = probe.equal_call(variation)
    there = probe.at(variation)
    gaps = []
    for point in perturbed(there.sample, probe.world, eps, tries=3, constants=True):
        try:
            moved = Probe(probe.world, point).equal_call(variation.of_the_call)
        except NotApplicable:
            return float("inf")
        if at == WHOLE:
            gaps.append(worst_error(list(map(_in_domain, moved.results, right.results)), right.results)[0])
        else:
            gaps.append(_gap(_in_domain(moved.gradients[at], right.gradients[at]), right.gradients[at], least))
    return max(gaps)


def _in_domain(moved: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """What rounding moved, with the right numbers where it left the domain; as it is if that is everywhere."""
    if moved.shape != right.shape or not bool(dense(moved).isfinite().any()):
        return moved
    return torch.where(dense(moved).isfinite(), dense(moved), dense(right))
