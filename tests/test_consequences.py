"""One cause, one accusation: what was not judged because of something else accuses nobody, and nothing is hidden."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conformance.core.clauses import registry
from conformance.core.outcomes import BROKEN, LEFT_BEHIND, NOT_WAITED_FOR, OUTCOMES, PROVED, RankOutcome
from conformance.report.consequences import _TOLD_BY_PYTORCH
from conformance.report.model import LEVELS, ClauseResult, overall
from conformance.report.verdicts import clause_verdict
from tests.made_up import CLAUSES, GATHER, OWED, clause, made, on_terminal, outcome, subject_ref

ROOT = Path(__file__).parents[1]
COUNT, ONCE, LAYOUT, SUM = (
    "Function.backward.count",
    "Function.save_for_backward.once",
    "Function.backward.any-layout",
    f"{GATHER}.backward.sum",
)
PYTORCH = "RuntimeError: function FBackward returned an incorrect number of gradients (expected 2, got 1)"
RAISED = 'ValueError: not today\n  File "mine.py", line 5, in forward\n    raise ValueError("not today")'


def verdicts(*tests):
    """The verdict and the reason of each clause that did not pass."""
    found = made(*tests).subjects[0].clauses
    return {own.id: (own.verdict, own.reason) for own in found if own.verdict != "pass"}


def test_pytorch_itself_names_the_clause_that_a_wrong_count_breaks():
    found = verdicts(outcome(SUM, "error", message=PYTORCH), outcome(COUNT, "fail", message="actual: 1"))
    assert found == {COUNT: ("fail", "actual: 1"), SUM: ("consequence", COUNT)}


def test_pytorch_itself_names_the_clause_that_a_gradient_for_no_tensor_breaks():
    words = (
        "RuntimeError: function FBackward returned a gradient different than None at position 2, but the corresponding "
        "forward input was not a Variable"
    )
    rows, none = "AllGather.backward.local-slice", "AllGather.backward.none-for-args"
    subject = subject_ref("mypkg.dist:Join", "AllGather")
    report = made(
        outcome(rows, "error", subject=subject, message=words),
        outcome(none, "fail", subject=subject, message="actual: 1"),
        subjects=(subject,),
        clauses=CLAUSES | {name: clause(name, spec="AllGather") for name in (rows, none)},
    )
    found = {own.id: (own.verdict, own.reason) for own in report.subjects[0].clauses if own.verdict != "pass"}
    assert found == {none: ("fail", "actual: 1"), rows: ("consequence", none)}


@pytest.mark.parametrize(("words", "named"), _TOLD_BY_PYTORCH)
def test_every_clause_that_pytorch_names_exists(words, named):
    assert [name for name in registry() if re.fullmatch(named, name)]


def test_its_words_excuse_nothing_where_the_clause_they_name_is_kept():
    assert verdicts(outcome(SUM, "error", message=PYTORCH))[SUM][0] == "error"


def test_an_assertion_that_quotes_the_exception_explains_it():
    found = verdicts(
        outcome(SUM, "fail", message="backward raises ValueError: not today"), outcome(ONCE, "error", message=RAISED)
    )
    assert (found[SUM][0], found[ONCE]) == ("fail", ("consequence", SUM))


def test_the_same_exception_at_the_same_line_is_told_once():
    report = made(*(outcome(name, "error", message=RAISED) for name in OWED))
    found = {own.id: own.verdict for own in report.subjects[0].clauses}
    assert found == {SUM: "error", ONCE: "consequence", LAYOUT: "consequence", COUNT: "consequence"}, (
        "a spec's own first"
    )
    told = on_terminal(report, 160)
    assert "cannot be called with its samples, so nothing could be judged" in told
    assert told.count("| ValueError: not today") == 1
    assert "fails: mypkg.dist:Gather, 1 broken" in told


def test_a_subject_that_cannot_be_imported_gives_one_message():
    words = "while the subject was imported: ModuleNotFoundError: No module named 'nothere'"
    told = on_terminal(made(*(outcome(name, "error", message=words) for name in OWED)), 160)
    assert "cannot be imported, so nothing could be judged" in told
    assert told.count("nothere") == 1


@pytest.mark.parametrize(
    "other",
    [
        RAISED.replace("line 5", "line 6"),
        RAISED.replace("mine.py", "yours.py"),
        RAISED.replace("not today", "not tomorrow"),
        'ValueError: not today\n  File "mine.py", line 9, in backward\n  File "mine.py", line 5, in forward',
        "ValueError: not today",
        "",
    ],
)
def test_another_exception_is_another_accusation(other):
    found = verdicts(outcome(COUNT, "error", message=RAISED), outcome(SUM, "error", message=other))
    assert [found[name][0] for name in (COUNT, SUM)] == ["error", "error"]


def test_where_an_object_lies_in_memory_makes_no_other_exception():
    raised = [RAISED.replace("not today", f"not <Group object at 0x7f66{at}>") for at in ("8a74c430", "973d1f0a")]
    found = verdicts(outcome(COUNT, "error", message=raised[0]), outcome(SUM, "error", message=raised[1]))
    assert {found[name][0] for name in (COUNT, SUM)} == {"error", "consequence"}


@pytest.mark.parametrize("word", ["crash", "timeout"])
def test_ranks_that_died_in_the_same_way_may_have_died_of_different_things(word):
    found = verdicts(outcome(COUNT, word, message="killed"), outcome(SUM, word, message="killed"))
    assert [found[name][0] for name in (COUNT, SUM)] == [word, word]


def test_ranks_that_died_in_the_same_collective_are_told_once():
    died = "killed by SIGABRT; the last collective it entered: {}(4x2 float64, 5x2 float64)"
    one, other = died.format("all_to_all_single"), died.format("all_reduce")
    found = verdicts(
        outcome(SUM, "crash", message=one),
        outcome(COUNT, "crash", message=one.replace("64", "32")),
        outcome(ONCE, "crash", message=one.replace("float64", "bfloat16")),
        outcome(LAYOUT, "crash", message=other),
    )
    assert [found[name][0] for name in (SUM, COUNT, ONCE, LAYOUT)] == ["crash", "consequence", "consequence", "crash"]


def test_ranks_that_hung_in_the_same_collective_are_told_once_for_the_method_that_they_hung_in():
    where = "; the last collective it entered: all_gather(4x2 float64)"
    left_out = "rank 1 left out all_reduce, in which rank 0 waited at mine.py:13, in {}"
    one, other = "did not finish within 5 s", "hangs where earlier tests hung, and no rank does anything"
    forward = f"{GATHER}.forward.result"

    def told(method):
        found = made(
            outcome(forward, "timeout", message=one + where, likely=left_out.format(method)),
            outcome(SUM, "timeout", message=other + where, likely=left_out.format(method)),
            clauses=CLAUSES | {forward: clause(forward, spec=GATHER)},
        )
        return {own.id: own.verdict for own in found.subjects[0].clauses if own.verdict != "pass"}

    assert told("backward") == {SUM: "timeout", forward: "consequence"}
    assert told("forward") == {SUM: "consequence", forward: "timeout"}
    proof = PROVED + "rank 0 waits in all_reduce([{}x3 float64]) by SUM, mine.py:13, in backward; rank 1 {}"
    one, other, where = proof.format(4, "waits in an exchange of the suite"), proof.format(8, "has returned"), ""
    assert told("test_mine") == {SUM: "timeout", forward: "consequence"}


def test_the_cause_is_rather_a_clause_of_which_no_test_passed():
    found = verdicts(
        outcome(SUM, "error", message=RAISED),
        outcome(SUM, "pass", node="before backward"),
        outcome(COUNT, "error", message=RAISED),
    )
    assert [found[name][0] for name in (SUM, COUNT)] == ["consequence", "error"]


def test_a_pass_in_another_world_says_nothing_about_the_cause():
    found = verdicts(
        outcome(SUM, "error", message=RAISED, world=2),
        outcome(SUM, "pass", node="alone", world=1),
        outcome(COUNT, "error", message=RAISED, world=2),
    )
    assert [found[name][0] for name in (SUM, COUNT)] == ["error", "consequence"]


def test_a_pass_without_the_sample_that_raises_says_nothing_about_the_cause():
    told = f"{RAISED}\nraises with sample 1, and holds with sample 0"
    found = verdicts(
        outcome(SUM, "error", message=told),
        outcome(SUM, "pass", node="other samples"),
        outcome(COUNT, "error", message=told),
    )
    assert [found[name][0] for name in (SUM, COUNT)] == ["error", "consequence"]


def test_an_assertion_that_failed_is_never_a_consequence():
    tests = [outcome(COUNT, "error", message=RAISED), outcome(SUM, "error", message=RAISED)]
    found = verdicts(*tests, outcome(SUM, "fail", node="other", message="gradient of x"))
    assert found[SUM][0] == "error"


def test_an_assertion_that_failed_on_one_rank_is_no_consequence_of_an_error_on_another():
    both = outcome(COUNT, "error", message=RAISED)
    both = replace(both, ranks=(both.ranks[0], RankOutcome(1, "fail", "gradient of x")))
    found = verdicts(outcome(SUM, "error", message=RAISED), both)
    assert found[COUNT][0] == "error"


@pytest.mark.parametrize("cause", NOT_WAITED_FOR)
def test_what_work_that_is_left_behind_breaks_is_told_once(cause):
    found = verdicts(
        outcome(SUM, "fail", message="gradient of x", likely=cause),
        outcome(COUNT, "fail", message="actual: 1", likely=LEFT_BEHIND),
        outcome(LAYOUT, "error", message="ranks disagree", likely=LEFT_BEHIND),
    )
    assert found[SUM][0] == "fail"
    assert found[COUNT] == found[LAYOUT] == ("consequence", SUM)


def test_what_breaks_for_another_reason_too_is_no_consequence_of_it():
    tests = [outcome(SUM, "fail", likely=LEFT_BEHIND), outcome(COUNT, "fail", likely=LEFT_BEHIND)]
    found = verdicts(*tests, outcome(COUNT, "fail", node="other", message="actual: 1"))
    assert [found[name][0] for name in (SUM, COUNT)] == ["fail", "fail"]


def _of_a_collective(*tests):
    """Verdict and reason of each clause of a collective, given the outcome and the words of its test."""
    subject = subject_ref("mypkg.dist:Sum", "Collective")
    names = [f"Collective.{name}" for name, _, _ in tests]
    levels = dict.fromkeys(names, "must") | {"Collective.forward.one-rank": "quality"}
    known = {name: clause(name, level=levels[name], spec="Collective") for name in names}
    found = [
        outcome(f"Collective.{name}", word, subject=subject, **{"message" if word in BROKEN else "reason": words})
        for name, word, words in tests
    ]
    report = made(*found, subjects=(subject,), clauses=CLAUSES | known)
    return {
        own.id.partition(".")[2]: (own.verdict, own.reason) for own in report.subjects[0].clauses if own.id in names
    }


GRADIENT, SEEN = "Collective.backward.gradient", "its gradient is wrong; see Collective.backward.gradient"


@pytest.mark.parametrize(
    ("among_several", "alone", "verdict"),
    [("fail", "fail", "consequence"), ("fail", "error", "error"), ("error", "fail", "fail"), ("pass", "fail", "fail")],
)
def test_a_gradient_that_is_wrong_among_several_ranks_is_not_told_again_of_one(among_several, alone, verdict):
    found = _of_a_collective(("backward.gradient", among_several, "differs"), ("forward.one-rank", alone, SEEN))
    assert found["backward.gradient"][0] == among_several
    assert found["forward.one-rank"] == (verdict, GRADIENT if verdict == "consequence" else SEEN)


@pytest.mark.parametrize("among_several", ["pass", "not-applicable", "skip", "error", "fail"])
def test_what_does_not_apply_for_a_clause_that_is_broken_is_a_consequence_of_that_alone(among_several):
    found = _of_a_collective(("backward.gradient", among_several, "x"), ("backward.types", "not-applicable", SEEN))
    is_broken = among_several == "fail"
    assert found["backward.types"] == (("consequence", GRADIENT) if is_broken else ("not-applicable", SEEN))


def test_what_does_not_apply_for_another_reason_is_no_consequence():
    words = "no argument has type I or P"
    found = _of_a_collective(("backward.gradient", "fail", "differs"), ("backward.types", "not-applicable", words))
    assert found["backward.types"] == ("not-applicable", words)


def test_a_clause_that_passes_in_one_world_is_no_consequence_in_another():
    found = _of_a_collective(
        ("backward.gradient", "fail", "differs"),
        ("backward.types", "not-applicable", SEEN),
        ("backward.types", "pass", ""),
    )
    assert found["backward.types"][0] == "pass"


def test_a_consequence_of_a_consequence_names_the_cause():
    found = _of_a_collective(
        ("forward.types", "fail", "differs"),
        ("backward.gradient", "not-applicable", "see what it returns; see Collective.forward.types"),
        ("backward.types", "not-applicable", SEEN),
    )
    assert found["backward.gradient"] == found["backward.types"] == ("consequence", "Collective.forward.types")


def test_a_broken_quality_excuses_no_promise():
    found = _of_a_collective(
        ("forward.one-rank", "fail", "differs"),
        ("backward.types", "not-applicable", "x; see Collective.forward.one-rank"),
    )
    assert found["backward.types"][0] == "not-applicable"


def test_every_clause_that_a_test_refers_to_exists():
    source = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "conformance").rglob("*.py"))
    named = set(re.findall(r"; see (\w+\.[\w.-]+)", source))
    assert len(named) > 1
    assert named <= {*registry()}


def test_a_stricter_clause_is_never_excused_by_a_laxer_one():
    found = verdicts(outcome(LAYOUT, "fail", message=f"raises {RAISED}"), outcome(SUM, "error", message=RAISED))
    assert [found[name][0] for name in (LAYOUT, SUM)] == ["fail", "error"]


messages = st.sampled_from([RAISED, PYTORCH, f"raises {RAISED}", "while the subject was imported: no", ""])
likely = st.sampled_from(["", *NOT_WAITED_FOR])
tests = st.builds(
    outcome,
    st.sampled_from(OWED),
    st.sampled_from(OUTCOMES),
    message=messages,
    node=st.text(max_size=3),
    likely=likely,
)


@settings(deadline=None)
@given(st.lists(tests, max_size=8))
def test_a_consequence_has_a_broken_cause_as_strict_and_hides_no_verdict(found):
    part = made(*found).subjects[0]
    clauses = {own.id: own for own in part.clauses}
    without = [ClauseResult(own.id, own.level, clause_verdict(own.tests)) for own in part.clauses]
    assert part.verdict == overall(without)
    for own, before in zip(part.clauses, without, strict=True):
        if own.verdict == "consequence":
            assert clauses[own.reason].verdict in BROKEN
            assert LEVELS.index(clauses[own.reason].level) <= LEVELS.index(own.level)
        else:
            assert own.verdict == before.verdict
