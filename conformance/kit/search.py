"""Run tests that are written for one sample: each variation alone, then pairs; a failing one is made minimal.

Nothing is drawn: the same sample gives the same variations in the same order, and their number is bounded, not their
time. A test judges the axes of its own families. A *row* is one choice there with all later axes set at once; the rows
of a choice continue until each later choice was tried. A failing row is made minimal by leaving out axes one by one.
If the test's own axis drops out, the test is silent: the other axis has its own test.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import combinations, islice
from typing import Any

import torch

from conformance.kit.afterwards import MOST_TRIED, add_note
from conformance.kit.calls import operations
from conformance.kit.deviations import Deviation, NotApplicable, need
from conformance.kit.frames import raise_mistake_of_the_suite, told
from conformance.kit.numerics.nearby import points_near
from conformance.kit.probe import Probe
from conformance.kit.sample_calls import differentiated, in_double
from conformance.kit.samples import Sample
from conformance.kit.subject import Subject
from conformance.kit.variations.axes_of_meaning import MEANINGS
from conformance.kit.variations.axes_of_representation import PICKS
from conformance.kit.variations.axis import AS_GIVEN, FAMILIES, MEANING, Pick, Variation
from conformance.kit.world import World

#: Most rows for one choice, and most variations for one sample: the rest is left out, and the report says so.
ROWS_OF_CHOICE, ROWS_OF_MANY, MOST_VARIATIONS = 6, 2, 150
#: A sample of more elements than this has so few variations: each of them takes long.
LARGE, MOST_OF_LARGE = 2**18, 10
#: Most variations for all samples together: if there are many samples, they take turns.
MOST_VARIATIONS_OF_ALL = 3000
#: Families with many choices for one sample.
MANY_CHOICES = ("size", "number", "value")
#: What an author can do whose class is right for the sample, and not made for another one.
NOT_MEANT = "forward accepts this sample, which was derived; if it is not meant to, let it raise"
#: The families of what is passed beside the inputs, and so many pairs of them are tried.
OPTIONS, OPTIONS_CROSSED = ("number", "choice"), 10
#: With so many sizes another number or flag is crossed. A test that is not crossed gets these, and whole samples'.
SIZES_CROSSED = 2
#: A size at which a loop takes more operations is judged alone: crossed with all other axes it would take minutes.
MOST_CROSSED = 1000
#: The name for the sample without variation.
GIVEN = "as given"
ALONE = "tested with one rank only; for several ranks other clauses vary what may differ between them"
#: What draws random numbers draws others in another layout or dtype.
FOLLOWED_BY_DRAWS = ("layout", "dtype")


def run_each(body: Callable[..., object], subject: Subject, world: World, case: Mapping[str, Any]) -> None:
    """Run a test body for each differentiable sample, without variation, on all ranks.

    Raises:
        NotApplicable: nothing could be judged.
    """
    reasons: list[str] = []
    samples = differentiated(subject, world)
    for sample, _ in samples:
        try:
            body(Probe(world, sample), **case)
        except NotApplicable as ended:
            reasons.append(str(ended))
    need(len(reasons) < len(samples), next(iter(reasons), ""))


def run_varied(body: Callable[..., object], subject: Subject, world: World, case: Mapping[str, Any]) -> str:
    """Run a test body for each sample in each of its variations; return a text if some were left out.

    Raises:
        Deviation: the body raised it in a variation, here its simplest form, and near the sample too.
        NotApplicable: nothing could be judged.
    """
    families: Sequence[str] = body.varies  # type: ignore[attr-defined]
    need(world.size == 1 or body.together, ALONE)  # type: ignore[attr-defined]
    reasons: list[str] = []
    judged = left_out = 0
    trials = [
        _Trial(body, Probe(world, in_double(sample)), case, families) for sample, _ in differentiated(subject, world)
    ]
    for number, trial in enumerate(trials):
        probe = trial.probe
        variations = list(trial.variations())
        names = list(map(str, variations))
        need(all(others == names for others in world.exchange(names)), "its samples differ between ranks")
        elements = sum(value.numel() for value in probe.sample.values if isinstance(value, torch.Tensor))
        most = MOST_VARIATIONS if elements <= LARGE else MOST_OF_LARGE
        shared = max(1, MOST_VARIATIONS_OF_ALL // len(trials))
        chosen = in_turn(variations[:most], number, shared)
        left_out += len(variations) - len(chosen)
        for variation in chosen:
            try:
                ended = trial.judge(variation)
            except Deviation as error:
                if world.size == 1:
                    _note_samples(error, trials, trial.accused)
                raise
            judged += ended is None
            reasons += [ended] if ended else []
    need(judged, reasons[0] if reasons else "no sample can be varied in this way")
    beyond = (
        f"beyond {MOST_VARIATIONS} for a sample, {MOST_OF_LARGE} for one of more than {LARGE} elements, or "
        f"{MOST_VARIATIONS_OF_ALL} for all samples"
    )
    return f"{left_out} variations left out, {beyond}" if left_out else ""


def in_turn(variations: Sequence[Variation], number: int, most: int) -> Sequence[Variation]:
    """Return the variations for one of many samples: the next ones after those of the sample before.

    >>> picks = [Variation((Pick("used", "", f"output {at} alone"),)) for at in range(3)]
    >>> [[str(one) for one in in_turn(picks, number, 2)] for number in range(2)]
    [['used: output 0 alone', 'used: output 1 alone'], ['used: output 2 alone', 'used: output 0 alone']]
    """
    if len(variations) <= most:
        return variations
    return [variations[place % len(variations)] for place in range(number * most, (number + 1) * most)]


def _note_samples(error: Deviation, trials: Sequence[_Trial], variation: Variation) -> None:
    """Add to a deviation with which samples the variation fails, and with which not."""
    samples = [Sample(trial.probe.sample.values, trial.probe.label) for trial in trials[:MOST_TRIED]]
    with suppress(Exception):  # a position of one sample need not be in another one
        add_note(error, {at: partial(trials[at].expect, variation) for at in range(len(samples))}, samples, 0.0)


class _Trial:
    """One test body with one sample."""

    #: The variation in which it does not hold.
    accused = AS_GIVEN

    def __init__(
        self, body: Callable[..., object], probe: Probe, case: Mapping[str, Any], families: Sequence[str]
    ) -> None:
        self.body, self.probe, self.case, self.families = body, probe, case, families
        #: What makes the body fail without any choice on the test's own axes.
        self.elsewhere: list[Variation] = []
        #: How each option ends alone: one that is not judged, such as one that rounds, would look meant with another.
        self.alone: dict[Pick, str | None] = {}

    def run(self, variation: Variation, probe: Probe | None = None) -> Deviation | NotApplicable | None:
        """Run the body in one variation; return how it ended, or None if it holds."""
        try:
            self.body(probe or self.probe, variation=variation, **self.case)
        except (Deviation, NotApplicable) as ended:
            return ended
        except Exception as error:
            raise_mistake_of_the_suite(error)
            return NotApplicable(f"backward raises {told(error)}")
        return None

    def expect(self, variation: Variation) -> None:
        """Run the body in one variation, and raise how it ended."""
        if ended := self.run(variation):
            raise ended

    def judge(self, variation: Variation) -> str | None:
        """Assert that the body holds in one variation, or return why it was not judged."""
        options = variation.of(*OPTIONS)
        if len(options) == len(variation.picks) == 1:
            return self._ended_alone(options[0])
        unjudged = filter(None, map(self._ended_alone, options if len(options) > 1 else ()))
        return next(unjudged, None) or self.expect_right(variation)

    def _ended_alone(self, option: Pick) -> str | None:
        # Asked here too: of many samples each has its turn with a part of the variations.
        if option not in self.alone:
            self.alone[option] = self.expect_right(Variation((option,)))
        return self.alone[option]

    def expect_right(self, variation: Variation) -> str | None:
        """Assert that the body holds in one variation, or return why it was not judged. A row that raises is halved.

        Choices that make it fail by themselves have their own test, and are left out: they would hide what others do.
        """
        for known in self.elsewhere:
            if {*known.picks} <= {*variation.picks}:
                variation = variation.without(*(pick.axis for pick in known.picks))
        ended = self.run(variation)
        if isinstance(ended, Deviation) and self.probe.world.size > 1:  # other ranks go on: nothing is tried again
            ended.what = f"{ended.what}, with {variation}"
            raise ended
        if isinstance(ended, NotApplicable):
            judged = [self.expect_right(half) is None for half in halves(variation)]
            return None if any(judged) else str(ended)
        if ended is None or not self.is_confirmed(variation):
            return None if ended is None else "it holds for samples with slightly different numbers"
        simplest = self.simplest(variation, ended)
        if simplest is None:
            return self.expect_right(variation)
        raise simplest

    def variations(self) -> Iterator[Variation]:
        """Yield each choice of the test's own axes alone, then its rows."""
        yield from [AS_GIVEN] if GIVEN in self.families else []
        is_crossed = getattr(self.body, "crossed", False) and self.probe.world.size == 1
        found = {family: picks(self.probe, family) for family in self.families if family != GIVEN}
        if not is_crossed and "size" in found:  # the test that is crossed has them all
            found["size"] = [pick for number, pick in enumerate(found["size"]) if number < SIZES_CROSSED or not pick.of]
        own = [pick for choices in found.values() for pick in choices]
        yield from (Variation((pick,)) for pick in own)
        own = list(filter(self._is_crossed, own))
        yield from meanings_that_meet(own)
        if is_crossed:
            later = self._later()
            for number, pick in enumerate(own):
                yield from rows(pick, later, number)

    def _is_crossed(self, pick: Pick) -> bool:
        world, key = self.probe.world, (self.probe.label, "operations", str(pick))
        if pick.family != "size" or world.size > 1:
            return True
        with suppress(Exception):  # forward refuses it, or takes longer still
            return world.once(key, lambda: operations(self.probe.at(Variation((pick,))).sample)) <= MOST_CROSSED
        return False

    def _later(self) -> dict[str, list[Pick]]:
        """The choices on each axis of a later family; a declared gradient need not grow with the loss."""
        last = max(FAMILIES.index(family) for family in self.families if family != GIVEN)
        is_declared = self.probe.sample.subject.gradient_kind == "declared"
        found: dict[str, list[Pick]] = {}
        kept = [family for family in FAMILIES[last + 1 :] if not (is_declared and family == "gradient scale")]
        for pick in (pick for family in kept for pick in picks(self.probe, family)):
            found.setdefault(pick.axis, []).append(pick)
        return found

    def is_confirmed(self, variation: Variation) -> bool:
        """Tell whether the body fails near the sample too; at a jump, rounding may change a result."""
        if variation.of("value"):
            return True  # beside a special value there is none
        points = list(points_near(self.probe.sample, self.probe.world))[1:]
        ended = [self.run(variation, Probe(self.probe.world, point)) for point in points]
        return all(isinstance(each, Deviation) for each in ended if not isinstance(each, NotApplicable))

    def simplest(self, variation: Variation, ended: Deviation) -> Deviation | None:
        """Find a minimal set of choices that fails; None if the test's own axis is not among them."""
        for pick in variation.picks:
            fewer = variation.without(pick.axis)
            if fewer.picks and isinstance(again := self.run(fewer), Deviation):
                variation, ended = fewer, again
        if variation.picks and not variation.of(*self.families):
            self.elsewhere.append(variation)
            return None
        explained = self.run(variation, replace(self.probe, explains=True))
        ended = explained if isinstance(explained, Deviation) else ended
        self.accused = variation
        if variation.picks:
            ended.what = f"{ended.what}, with {variation}"
        if variation.of(*MEANING) and self.run(AS_GIVEN) is None:
            BaseException.add_note(ended, NOT_MEANT)
        return ended


def picks(probe: Probe, family: str) -> list[Pick]:
    """Return every choice on the axes of one family, for one sample."""
    world, sample = probe.world, probe.sample
    if family in MEANING:
        return list(MEANINGS[family](sample, world))
    if family in FOLLOWED_BY_DRAWS and probe.draws_anything:
        return []
    outputs = [result if at in probe.plain.places else None for at, result in enumerate(probe.plain.results)]
    return list(PICKS[family](sample, outputs))


def rows(pick: Pick, later: Mapping[str, Sequence[Pick]], start: int = 0) -> Iterator[Variation]:
    """Combine one choice with all later axes at once, until each later choice was tried.

    The many sizes and numbers of a sample take turns: two rows for each, the next ones of those of the one before.

    >>> later = {"used": [Pick("used", "", "output 0 alone"), Pick("used", "", "output 1 alone")]}
    >>> [str(row) for row in rows(Pick("needs", "", "input 0 alone"), later)]
    ['needs: input 0 alone; used: output 0 alone', 'needs: input 0 alone; used: output 1 alone']
    """
    longest = max(map(len, later.values()), default=0)
    count, start = (ROWS_OF_MANY, ROWS_OF_MANY * start) if pick.family in MANY_CHOICES else (ROWS_OF_CHOICE, 0)
    for number in range(start, start + min(longest, count)):
        yield Variation((pick,)).plus(choices[number % len(choices)] for choices in later.values())


def meanings_that_meet(own: Sequence[Pick]) -> Iterator[Variation]:
    """Each other number, flag or word at other sizes, a little larger and large; and one of each two options."""
    sizes, options = ([pick for pick in own if pick.family in families] for families in ({"size"}, OPTIONS))
    for pick in options:
        yield from (Variation((size, pick)) for size in sizes[:SIZES_CROSSED])
    firsts = {pick.axis: pick for pick in reversed(options)}.values()
    yield from map(Variation, islice(combinations(reversed(firsts), 2), OPTIONS_CROSSED))


def halves(variation: Variation) -> list[Variation]:
    """Split a row that raises in two, each without one half of its later choices."""
    first, rest = variation.picks[:1], variation.picks[1:]
    middle = len(rest) // 2
    return [Variation((*first, *part)) for part in (rest[:middle], rest[middle:]) if len(rest) > 1]
