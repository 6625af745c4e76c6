"""Variations of samples: which there are, how a failure is made simple, and that nothing about them is drawn."""

from __future__ import annotations

import gc
import weakref
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.distributed as dist

from conformance import GROUP, ConformanceError, check
from conformance.kit import judged, search
from conformance.kit.deviations import Deviation, NotApplicable
from conformance.kit.marks import varies
from conformance.kit.probe import Probe
from conformance.kit.sample_calls import every_sample
from conformance.kit.search import GIVEN, halves, picks, rows, run_varied
from conformance.kit.subject import Subject
from conformance.kit.traits import is_definite
from conformance.kit.variations.axes_of_meaning import resized_at, resizings
from conformance.kit.variations.axis import AS_GIVEN, FAMILIES, Pick, Variation
from conformance.kit.variations.sizes import LONGER
from conformance.kit.world import World
from tests.correct import options

DOUBLE = torch.float64


def given() -> list[tuple[Any, ...]]:
    x, y = (torch.randn(size, dtype=DOUBLE, requires_grad=True) for size in ((3, 4), (4,)))
    return [(x, y, True)]


def product(x: torch.Tensor, y: torch.Tensor, squared: bool) -> tuple[torch.Tensor, torch.Tensor]:
    return (x * x if squared else x) * y, x + y


SUBJECT = Subject(product, inputs=given)


def probe_of(subject: Subject) -> Probe:
    return Probe(World(), every_sample(subject, World())[0])


def failing_with(*families: str) -> Callable[..., None]:
    """A body that fails wherever all these families are varied."""

    def body(probe: Probe, variation: Variation) -> None:
        if all(variation.of(family) for family in families):
            raise Deviation("it")

    return body


def test_every_family_is_varied() -> None:
    probe = probe_of(SUBJECT)
    kept = (torch.ones(4, dtype=DOUBLE), torch.ones(4, dtype=torch.bool))
    mask = Subject(lambda x, keep: x * keep, inputs=lambda: [kept])
    found = {family for family in FAMILIES if picks(probe, family) or picks(probe_of(mask), family)}
    assert found == set(FAMILIES)


def test_the_same_sample_has_the_same_variations() -> None:
    one, other = ([str(pick) for family in FAMILIES for pick in picks(probe_of(SUBJECT), family)] for _ in range(2))
    assert one == other
    assert len(set(one)) == len(one)


def test_a_call_in_a_variation_is_what_the_plain_call_is() -> None:
    probe = probe_of(SUBJECT)
    for family in ("layout", "parameter", "needs", "used", "gradient layout", "gradient form", "gradient scale"):
        for pick in picks(probe, family):
            variation = Variation((pick,))
            actual, right = probe.go(variation), probe.equal_call(variation)
            for at, gradient in actual.gradients.items():
                torch.testing.assert_close(gradient, right.gradients[at])


def test_another_meaning_is_another_sample() -> None:
    probe = probe_of(SUBJECT)
    (turned,) = picks(probe, "choice")
    assert str(turned) == "choice of input 2: False"
    there = probe.at(Variation((turned,)))
    assert not torch.equal(there.plain.results[0], probe.plain.results[0])
    assert torch.equal(there.plain.results[1], probe.plain.results[1])


def test_a_definite_matrix_that_is_symmetric_but_for_rounding_stays_definite() -> None:
    matrix = torch.eye(5, dtype=DOUBLE) + 0.1
    matrix[0, 1] += 1e-12
    probe = probe_of(Subject(torch.linalg.cholesky_ex, inputs=[(matrix.requires_grad_(),)]))
    made = [one for one in (pick.value(probe.sample) for pick in picks(probe, "value")) if one]
    assert all(is_definite(one.values[0]) for one in made)


def test_a_gradient_that_sums_many_more_terms_is_compared_next_to_them() -> None:
    """In a lower precision a sum of many numbers may be next to nothing but for its rounding."""
    x, y, s = (torch.randn(shape, dtype=DOUBLE, requires_grad=True) for shape in ((3,), (3,), ()))
    probe = probe_of(Subject(lambda x, y, s: torch.outer(x, y) + s, inputs=[(x, y, s)]))
    sizes = [pick for pick in picks(probe, "size") if pick.value(probe.sample)]
    longer = max(sizes, key=lambda pick: len(pick.value(probe.sample).values[0]))
    single = next(pick for pick in picks(probe, "dtype") if pick.value is torch.float32)
    variation = Variation((longer, single))
    right = probe.equal_call(variation)
    terms = right.results[0].numel()
    assert terms > 300
    usual = judged.usual_size(probe, variation, 2, right)
    assert usual == pytest.approx(float(probe.plain.gradients[2].abs()) * (terms / 9) ** 0.5)


def test_what_forward_refuses_is_not_judged() -> None:
    with pytest.raises(NotApplicable, match="refused so"):
        run_varied(varies("choice")(refused), Subject(only_squared, inputs=given), World(), {})


def only_squared(x: torch.Tensor, y: torch.Tensor, squared: bool) -> torch.Tensor:
    if not squared:
        raise ValueError("refused so")
    return x * x * y


def refused(probe: Probe, variation: Variation) -> None:
    probe.go(variation)


def test_a_size_at_which_tensors_get_too_large_is_refused() -> None:
    subject = Subject(lambda x: x + x.unsqueeze(-1), inputs=[(torch.ones(3, dtype=DOUBLE),)])
    (sample,) = every_sample(subject, World())
    assert sample.having({0: torch.ones(1000, dtype=DOUBLE)}).run().tensors[0].numel() == 1000**2
    with pytest.raises(NotApplicable, match="a tensor of more than 16,777,216 elements"):
        sample.having({0: torch.ones(5000, dtype=DOUBLE)}).run()


def test_so_is_one_at_which_a_result_gets_too_large() -> None:
    (sample,) = every_sample(Subject(torch.diagflat, inputs=[(torch.ones(3, dtype=DOUBLE),)]), World())
    assert sample.having({0: torch.ones(1000, dtype=DOUBLE)}).run().tensors[0].numel() == 1000**2
    with pytest.raises(NotApplicable, match="a tensor of more than 16,777,216 elements"):
        sample.having({0: torch.ones(5000, dtype=DOUBLE)}).run()
    (shown,) = every_sample(Subject(lambda x: x.expand(len(x), -1), inputs=sample.subject.inputs), World())
    assert shown.having({0: torch.ones(5000, dtype=DOUBLE)}).run().tensors[0].numel() == 5000**2  # in no memory


def test_no_matrix_of_gigabytes_is_made() -> None:
    """It would end a run for lack of memory."""
    (sample,) = every_sample(Subject(torch.diagflat, inputs=[(torch.ones(3, 5, dtype=DOUBLE),)]), World())
    (other,) = every_sample(Subject(torch.sin, inputs=[(torch.ones(3, 5, dtype=DOUBLE),)]), World())
    both = ((0, 0), (0, 1))
    assert resized_at(sample, both, 128) is None
    assert resized_at(sample, both, 7)
    assert resized_at(other, both, 128)
    assert LONGER not in {pick.choice for pick in resizings(sample, World())}
    assert LONGER in {pick.choice for pick in resizings(other, World())}


def test_a_refused_call_keeps_nothing_that_it_made() -> None:
    made = []

    def refusing() -> None:
        large = torch.ones(3)
        made.append(weakref.ref(large))
        raise ValueError("refused")

    gc.disable()
    try:
        with pytest.raises(ValueError, match="refused") as caught:
            World().together(refusing)
        del caught
        assert made[0]() is None
    finally:
        gc.enable()


def test_a_mistake_of_the_suite_is_no_refusal() -> None:
    def body(probe: Probe, variation: Variation) -> None:
        probe.equal_call(None)  # type: ignore[arg-type]

    with pytest.raises(AttributeError):
        run_varied(varies("needs")(body), SUBJECT, World(), {})


def test_a_failure_is_told_by_its_simplest_variation() -> None:
    body = varies("needs", crossed=True)(failing_with("needs", "used"))
    with pytest.raises(Deviation) as caught:
        run_varied(body, SUBJECT, World(), {})
    assert caught.value.what == "it, with needs: input 0 alone; used: output 0 alone"


def test_a_failure_of_another_axis_alone_is_its_own_tests_affair() -> None:
    body = varies("needs", crossed=True)(failing_with("used"))
    run_varied(body, SUBJECT, World(), {})
    with pytest.raises(Deviation, match="used: output 0 alone"):
        run_varied(varies("used")(failing_with("used")), SUBJECT, World(), {})


def test_a_failure_of_another_axis_alone_hides_no_failure_of_the_tests_own() -> None:
    """Every row has a choice on each later axis, one that fails by itself too."""

    def body(probe: Probe, variation: Variation) -> None:
        if variation.of("used") or (variation.of("needs") and variation.of("gradient form")):
            raise Deviation("it")

    with pytest.raises(Deviation) as caught:
        run_varied(varies("needs", crossed=True)(body), SUBJECT, World(), {})
    assert caught.value.what == "it, with needs: input 0 alone; gradient form: the same tensor for every output"


def test_a_size_at_which_a_loop_takes_long_and_one_that_is_refused_are_not_crossed() -> None:
    def last_sums(x: torch.Tensor) -> torch.Tensor:
        if len(x) == 1:
            raise ValueError("rows are wanted")
        total = x[0]
        for row in x[1:]:
            for number in row:
                total = total + number
        return total

    seen: dict[str, set[bool]] = {}

    def body(probe: Probe, variation: Variation) -> None:
        for pick in variation.of("size"):
            seen.setdefault(pick.choice, set()).add(len(variation.picks) > 1)

    subject = Subject(last_sums, inputs=lambda: [(torch.randn(3, 9, dtype=DOUBLE, requires_grad=True),)])
    run_varied(varies("size", crossed=True)(body), subject, World(), {})
    assert seen["11 instead of 9"] == {False, True}
    assert seen["301 instead of 3"] == seen["one along the first dimension"] == {False}


def test_what_holds_near_the_sample_accuses_nobody() -> None:
    first = probe_of(SUBJECT).sample.values[0]

    def body(probe: Probe, variation: Variation) -> None:
        if torch.equal(probe.sample.values[0], first):
            raise Deviation("at the sample alone")

    with pytest.raises(NotApplicable, match="it holds for samples with slightly different numbers"):
        run_varied(varies("used")(body), SUBJECT, World(), {})


def test_a_test_may_ask_for_the_sample_as_it_is() -> None:
    seen: list[Variation] = []
    run_varied(varies(GIVEN)(lambda probe, variation: seen.append(variation)), SUBJECT, World(), {})
    assert seen == [AS_GIVEN]


def test_every_later_choice_is_met() -> None:
    later = {"used": [Pick("used", "", str(number)) for number in range(5)], "parameter": [Pick("parameter", "x", "p")]}
    found = list(rows(Pick("needs", "", "one"), later))
    assert {pick for row in found for pick in row.of("used")} == set(later["used"])
    assert all(row.of("parameter") for row in found)


def test_a_refused_row_is_halved() -> None:
    row = Variation(tuple(Pick(family, "", "x") for family in ("needs", "used", "gradient layout", "gradient scale")))
    first, second = halves(row)
    assert {*first.picks, *second.picks} == set(row.picks)
    assert first.picks[0] == second.picks[0] == row.picks[0]


def test_what_a_call_does_to_what_it_is_lent_is_seen() -> None:
    def rude(x: torch.Tensor, weights: list[float]) -> torch.Tensor:
        return x * weights.pop()

    inputs = [(torch.ones(2, requires_grad=True), [2.0, 3.0])]
    observed = probe_of(Subject(rude, inputs=lambda: inputs)).plain
    assert observed.changes("container") == [
        "a list or dictionary of the caller's has lost entries, or has another order, after forward"
    ]
    assert not observed.changes("argument")


def test_attributes_of_the_callers_tensors_are_on_the_copies() -> None:
    weight = torch.ones(2, requires_grad=True)
    weight.main_grad = torch.zeros(2)  # type: ignore[attr-defined]

    def add(x: torch.Tensor) -> torch.Tensor:
        return x + x.main_grad  # type: ignore[attr-defined]

    probe = probe_of(Subject(add, inputs=lambda: [(weight,)]))
    assert torch.equal(probe.plain.results[0], torch.ones(2))


def test_the_cause_of_a_failure_is_looked_for_once() -> None:
    asked: list[bool] = []

    def body(probe: Probe, variation: Variation) -> None:
        asked.append(probe.explains)
        raise Deviation("it", likely="the cause" if probe.explains else "")

    with pytest.raises(Deviation) as told:
        run_varied(varies("needs", "layout")(body), SUBJECT, World(), {})
    assert told.value.likely == "the cause"
    assert asked.count(True) == 1


class _WrongOnTheSecondRank(torch.autograd.Function):
    """A product that forgets the second factor there, if the first input alone needs a gradient."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, y: torch.Tensor, group: Any) -> torch.Tensor:
        ctx.save_for_backward(x, y)
        ctx.is_second = dist.get_rank(group) == 1
        return x * y

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, None]:
        x, y = ctx.saved_tensors
        return grad if ctx.is_second and not ctx.needs_input_grad[1] else grad * y, grad * x, None


class _RefusedOnTheSecondRank(_WrongOnTheSecondRank):
    """The right product, which that rank refuses unless both inputs need a gradient."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, y: torch.Tensor, group: Any) -> torch.Tensor:
        if dist.get_rank(group) == 1 and not all(ctx.needs_input_grad[:2]):
            raise ValueError("both or none")
        return _WrongOnTheSecondRank.forward(ctx, x, y, group)


def on_two_ranks(function: type) -> Any:
    x, y = (torch.linspace(0.3, end, 3, dtype=DOUBLE, requires_grad=True) for end in (1.1, 1.7))
    subject = Subject(function, spec="Collective", types="V, V -> V")
    return check(subject, (x, y, GROUP), ranks=2, only="test_gradients_where_some_inputs_need_one")


def test_ranks_vary_a_sample_together_and_the_one_that_is_wrong_is_accused() -> None:
    with pytest.raises(ConformanceError) as caught:
        on_two_ranks(_WrongOnTheSecondRank)
    told = " ".join(str(caught.value).replace("|", " ").split())
    assert "rank 1 of 2, in" in told
    assert "with needs: input 0 alone" in told
    assert "rank 0 of 2: bystander" in told


def test_a_call_that_one_rank_refuses_is_judged_on_none() -> None:
    (subject,) = on_two_ranks(_RefusedOnTheSecondRank).subjects
    (clause,) = [each for each in subject.clauses if each.id == "Function.backward.needs-input-grad-honoured"]
    assert {test.outcome for test in clause.tests if test.world == 2} == {"not-applicable"}


def test_many_samples_take_turns_with_the_variations() -> None:
    found: Counter[str] = Counter()

    @varies("number", "needs", "used", crossed=True)
    def body(probe: Probe, variation: Variation) -> None:
        found[str(variation)] += 1

    assert not run_varied(body, Subject(product, inputs=given), World(), {})
    alone, samples = len(found), search.MOST_VARIATIONS_OF_ALL // len(found) + 30
    found.clear()
    said = run_varied(body, Subject(product, inputs=lambda: given() * samples), World(), {})
    assert (len(found), found.total() <= search.MOST_VARIATIONS_OF_ALL) == (alone, True)
    assert said.startswith(f"{alone * samples - found.total()} variations left out, beyond ")


def test_an_option_that_is_not_judged_alone_accuses_nobody_at_any_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "MOST_VARIATIONS_OF_ALL", 40)
    samples = [(torch.randn(4, 3, dtype=torch.float64), False, 1.0, False) for _ in range(4)]
    report = check(options.ClippedBackward, *samples, only="Function.backward.gradient")
    assert report.subjects[0].clause("Function.backward.gradient").verdict == "pass"
