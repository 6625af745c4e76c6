"""The report on a terminal, and the progress line: what is told, in which order, and how wide."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from conformance.core.outcomes import RankOutcome, TestOutcome
from conformance.report import failures as failures_module
from conformance.report import github
from conformance.report.failures import by_cause, failures, last_words
from conformance.report.html import page
from conformance.report.junit import junit
from conformance.report.model import Expected
from conformance.report.progress import Progress
from conformance.report.terminal import terminal
from conformance.report.verdicts import judge
from tests.made_up import (
    CLAUSES,
    ENVIRONMENT,
    GATHER,
    MESSAGE,
    NASTY,
    OWED,
    SUBJECT,
    SUITE,
    SUM,
    broken,
    clause,
    engine_passes,
    made,
    nasty,
    on_terminal,
    outcome,
    plan,
    subject_ref,
    with_note,
)


@pytest.mark.parametrize("width", [80, 160])
def test_a_failure_tells_everything_in_the_order_a_reader_needs(width):
    text = on_terminal(broken(), width)
    wanted = [
        f"FAIL  {SUM}  (must)",
        f"What {SUM} says.",
        "rank 1 of 2, in test_x.py",
        "actual:   tensor([0.5, 0.5])",
        "expected: tensor([1., 1.])",
        "looks like mean instead of sum",
        "reproduce  conformance run mypkg.dist:Gather -k",
        f"api/spec_impl/ksuit/index.html#clause-{SUM}",
    ]
    places = [text.index(part) for part in wanted]
    assert places == sorted(places)
    assert text.count("looks like") == 1


def test_lines_fit_except_commands_and_names_to_be_copied():
    for width in (60, 80, 160):
        lines = on_terminal(nasty(), width, verbose=True).splitlines()
        kept_whole = ("reproduce", "read ", "test_x.py::")
        assert all(len(line) <= width for line in lines if not line.strip().startswith(kept_whole))


def test_the_name_of_a_test_is_not_broken_at_the_end_of_a_line():
    node = f"test_x.py::test_that_has_{'a_very_long_' * 6}name[mypkg.dist:Gather-ranks2]"
    text = on_terminal(made(outcome("Function.backward.count", "fail", node=node, message="got 1")), 60)
    assert f"in\n  {node}\n" in text


def test_of_several_failures_with_one_likely_cause_the_first_is_told():
    told = [outcome(SUM, "fail", node=f"test_x.py::{name}", message=f"{name} is off", likely="a mean") for name in "ab"]
    text = on_terminal(made(*told))
    assert "a is off" in text
    assert "b is off" not in text
    assert "1 more way in which it failed: see --report" in text


def test_a_stack_is_told_without_the_extension_modules():
    stack = 'Fatal Python error: Aborted\n\n  File "layers.py", line 3 in forward\n\nExtension modules: torch._C\n'
    assert list(last_words(RankOutcome(0, "crash", stack=stack))) == [
        ("stack", 'Fatal Python error: Aborted\n  File "layers.py", line 3 in forward')
    ]


def test_of_a_long_stack_the_innermost_calls_are_told():
    frames = [f'  File "layers.py", line {line} in call' for line in range(20)]
    stack = "\n".join(["Fatal Python error: Aborted", "", "Current thread 0x1 (most recent call first):", *frames])
    ((_, told),) = last_words(RankOutcome(0, "crash", stack=stack))
    assert frames[0] in told
    assert frames[19] not in told


def test_of_several_threads_the_one_that_was_at_work_is_told_first():
    working = 'Current thread 0x1 (most recent call first):\n  File "layers.py", line 3 in forward\n'
    waiting = 'Thread 0x2 (most recent call first):\n  File "loader.py", line 9 in wait\n\n'
    ((_, told),) = last_words(RankOutcome(0, "timeout", stack=waiting + working))
    assert told.startswith(working + "Thread 0x2")


def test_of_a_stack_the_subjects_lines_are_told_and_not_the_suites():
    suite = Path(failures_module.__file__).parents[1]
    head, started = "Current thread 0x1 (most recent call first):", '  File "<frozen runpy>", line 88 in _run_code'
    waits = f'  File "{suite}/ranks/channel.py", line 107 in receive'
    calls = f'  File "{suite}/suite/test_apply.py", line 21 in test_it_takes_its_samples'
    own = '  File "layers.py", line 3 in forward'

    def told(*frames):
        ((_, text),) = last_words(RankOutcome(0, "timeout", stack="\n".join([head, *frames, started])))
        return text

    assert told(own, calls) == f"{head}\n{own}"
    assert told(waits, calls) == "no line of the subject's: it waited for other ranks"
    assert calls in told(calls), "what hangs in the suite itself is shown"


def test_a_note_tells_one_failure():
    clauses = {**CLAUSES, "Function.new.thing": clause("Function.new.thing", level="may")}
    told = [outcome("Function.new.thing", "fail", node=f"test_x.py::{name}", message=f"{name} is off") for name in "ab"]
    text = on_terminal(made(*told, clauses=clauses))
    assert "a is off" in text
    assert "b is off" not in text


def test_the_text_of_a_clause_has_no_marks_of_its_docstring():
    one = replace(clause("Function.backward.count"), text="``x`` on rank *r* times *2*, see :func:`torch.vmap`.")
    text = on_terminal(made(outcome(one.id, "fail", message="got 1"), clauses={**CLAUSES, one.id: one}))
    assert "  x on rank r times 2, see torch.vmap.\n" in text


def test_a_summary_line_for_each_subject_and_one_for_the_engine():
    text = on_terminal(made(outcome("Function.backward.any-layout", "fail")))
    assert "PyTorch 2.13.0+cpu keeps 1 of 1 engine clauses" in text
    assert f"deviates    mypkg.dist:Gather ({GATHER})" in text
    assert "must 2/2  should 1/1  quality 0/1" in text


def test_an_engine_that_an_earlier_run_tested_is_told_with_the_day():
    text = on_terminal(replace(made(), engine_tested="2026-11-24T04:00:00+00:00"))
    assert "keeps 1 of 1 engine clauses (tested 2026-11-24)\n" in text


def test_broken_engine_clauses_are_told_too():
    text = on_terminal(made(outcome("Function.backward.receives", "fail", subject=None, message="got 3")))
    assert "keeps 0 of 1 engine clauses" in text
    assert "| got 3" in text


def test_an_engine_that_was_not_looked_at_keeps_nothing_and_breaks_nothing():
    text = on_terminal(made(outcome("Function.backward.receives", "skip", subject=None, reason="needs 1 GPU, found 0")))
    assert "PyTorch 2.13.0+cpu was not judged: needs 1 GPU, found 0" in text
    assert "keeps 0 of" not in text


def test_must_comes_before_quality():
    report = made(outcome("Function.backward.any-layout", "fail"), outcome(SUM, "fail"))
    text = on_terminal(report)
    assert text.index(f"FAIL  {SUM}") < text.index("FAIL  Function.backward.any-layout")


def test_tests_that_failed_alike_are_told_once():
    tests = [outcome(SUM, "fail", world=n, node=f"suite/t.py::t[{n}]", message=f"{n} ranks: wrong") for n in (2, 3, 4)]
    other = outcome(SUM, "crash", node="suite/t.py::u", message="gone")
    own = next(own for own in made(*tests, other).subjects[0].clauses if own.id == SUM)
    assert [(failure.test.nodeid, len(failure.alike)) for failure in failures(own)] == [
        ("suite/t.py::u", 0),
        ("suite/t.py::t[2]", 2),
    ]
    text = on_terminal(made(*tests, other))
    assert f"  alike in   t.py::t[3]\n{' ' * 13}t.py::t[4]\n" in text


def test_where_an_object_lies_in_memory_makes_no_second_failure():
    words = ("TypeError: <Group object at 0x7fa8> is no group", "TypeError: <Group object at 0x71bd6> is no group")
    ranks = tuple(RankOutcome(rank, "error", text) for rank, text in enumerate(words))
    tests = [
        replace(outcome(SUM, "error", node=f"suite/t.py::{name}"), ranks=found)
        for name, found in (("t", ranks), ("u", ranks[::-1]))
    ]
    own = next(own for own in made(*tests).subjects[0].clauses if own.id == SUM)
    (failure,) = failures(own)
    assert [who.named(2) for who in failure.accused] == ["both ranks"]


def test_one_accident_that_breaks_every_clause_is_told_once():
    names = ("Function.backward.count", "Function.save_for_backward.once", SUM)
    report = made(*(outcome(name, "error", message="cannot import mypkg") for name in names))
    broken_ = [own for own in report.subjects[0].clauses if own.broken]
    assert [(own.id, len(others)) for own, others in by_cause(broken_)] == [(names[0], 2)]
    text = on_terminal(report)
    assert text.count("cannot import mypkg") == 1
    assert "likewise   2 more clauses" in text


def test_the_rank_to_blame_comes_before_the_ranks_that_suffered():
    test = outcome(SUM, "crash", world=3)
    ranks = (
        RankOutcome(0, "error", "connection closed by peer"),
        RankOutcome(1, "crash", "the rank died", exitcode=-11, signal="SIGSEGV", output="last words"),
        RankOutcome(2, "error", "connection closed by peer"),
    )
    text = on_terminal(made(replace(test, ranks=ranks)))
    assert text.index("rank 1 of 3, killed by SIGSEGV") < text.index("| last words")
    assert text.index("| last words") < text.index("ranks 0, 2 of 3: error: connection closed")


def test_an_expected_break_is_mentioned_and_not_told_as_a_failure():
    report = broken()
    part = report.subjects[0]
    known = tuple(
        replace(own, expected=Expected("until 3.0", "https://x") if own.broken else None) for own in part.clauses
    )
    report = replace(report, subjects=(replace(part, clauses=known, verdict="deviates"),))
    text = on_terminal(report, 160)
    assert f"1 broken as expected\n  {SUM}: until 3.0 https://x" in text
    assert "FAIL" not in text
    assert "actual:" not in text
    assert list(github.commands(report)) == []
    assert 'href="https://x"' in page(report)
    assert ElementTree.fromstring(junit(report)).findall("testsuite")[1].get("failures") == "0"


def test_skipped_with_reasons_and_not_applicable_on_one_line():
    report = made(
        outcome(SUM, "not-applicable", reason="the class defines no jvp"),
        planned=[plan("Function.backward.count", function="test_n")],
        missing="not selected by -k",
    )
    text = on_terminal(report)
    assert "1  not selected by -k: Function.backward.count" in text
    assert "not applicable 1" in text
    assert "defines no jvp" not in text
    assert f"1  the class defines no jvp: {SUM}" in on_terminal(report, verbose=True)


def on_two_ranks(node=""):
    """A test that raised on rank 0, and failed on rank 1."""
    test = outcome(SUM, "error", node=node)
    raised = RankOutcome(0, "error", 'ValueError: not today\n  File "mine.py", line 5, in backward')
    return replace(test, ranks=(raised, RankOutcome(1, "fail", MESSAGE)))


def test_an_error_on_one_rank_hides_no_numbers_of_another():
    report = made(on_two_ranks())
    told = on_terminal(report, 160)
    assert told.index("rank 1 of 2, in") < told.index("expected: tensor([1., 1.])") < told.index("rank 0 of 2, in")
    assert "| ValueError: not today" in told
    written = page(report)
    assert written.index("expected: tensor([1., 1.])") < written.index("ValueError: not today")
    alone = outcome(SUM, "error", message=report.subjects[0].clauses[-1].tests[0].ranks[0].message, node="alone")
    assert "expected: tensor([1., 1.])" in on_terminal(made(alone, on_two_ranks("another")), 160)


def test_what_a_pass_leaves_open_is_told_where_details_are_wanted():
    report = made(outcome(SUM, reason="too rough to tell the gradient of input 1 of sample 0"), outcome(SUM, node="2"))
    assert "too rough" not in on_terminal(report)
    told = on_terminal(report, 160, verbose=True)
    assert f"{SUM}: too rough to tell the gradient of input 1 of sample 0" in told
    assert "1 passed, of which something was not judged" in told
    assert "too rough to tell the gradient of input 1" in page(report)


def test_colours_only_where_they_are_wanted(monkeypatch):
    for name in ("FORCE_COLOR", "NO_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)
    assert "\x1b" not in on_terminal(broken())
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    assert "\x1b[1;31m" in on_terminal(broken())
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[1;31m" not in on_terminal(broken())


def test_progress_in_a_log_is_rare_and_on_a_terminal_leaves_nothing(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("conformance.report.progress.time.monotonic", lambda: now[0])
    file = io.StringIO()
    progress = Progress(terminal(file, width=80))
    progress.start(3)
    progress.advance(engine_passes())
    assert file.getvalue() == ""
    now[0] = 31.0
    progress.advance(outcome(SUM, "fail"))
    progress.stop()
    progress.stop()
    assert file.getvalue() == "2 of 3 tests: 1 fail\n"


def test_progress_starts_no_thread(monkeypatch):
    import threading

    monkeypatch.setenv("FORCE_COLOR", "1")
    before = threading.active_count()
    progress = Progress(terminal(io.StringIO(), width=80))
    progress.start(1)
    progress.advance(TestOutcome(NASTY, "pass", 0.0, NASTY))
    assert threading.active_count() == before
    progress.stop()


def test_what_was_not_selected_is_one_line():
    names = ("Function.backward.count", "Function.save_for_backward.once", "Function.backward.any-layout")
    planned = [plan(name) for name in (*names, SUM)]
    engine = plan("Function.backward.receives", subject=None)
    report = judge(
        [outcome(SUM)],
        [*planned, engine],
        [SUBJECT],
        CLAUSES,
        ENVIRONMENT,
        suite=SUITE,
        selected={outcome(SUM).nodeid},
    )
    told = on_terminal(report)
    assert "Not selected: 1 clause of PyTorch itself and 3 of the subject." in told
    assert "Of the selected tests 1 passed, and 0 did not apply: nothing broken.\n" in told
    assert "incomplete, for a verdict needs all tests: run the same without -k.\n" in told
    assert "must 1/1" in told
    assert "engine clauses" not in told
    assert "0/" not in told
    assert "skipped" not in told
    assert "3 not selected" in page(report)


@pytest.mark.parametrize("ended", ["fail", "skip", "not-applicable"])
def test_a_selection_that_does_not_pass_is_not_said_to(ended):
    tests = [outcome(SUM, ended), plan("Function.backward.count")]
    report = judge([tests[0]], [plan(SUM), tests[1]], [SUBJECT], CLAUSES, ENVIRONMENT, selected={tests[0].nodeid})
    assert "without -k" not in on_terminal(report)


def test_a_subject_that_no_selected_test_is_of_is_counted_and_not_named():
    other = subject_ref("mypkg.dist:Scatter")
    planned = [plan(name, subject=subject) for name in OWED for subject in (SUBJECT, other)]
    report = judge(
        [outcome(SUM)], planned, [SUBJECT, other], CLAUSES, ENVIRONMENT, suite=SUITE, selected={outcome(SUM).nodeid}
    )
    told = on_terminal(report)
    assert "Scatter" not in told
    assert "Not selected: 1 subject and 3 clauses of the other subject." in told
    nothing = judge([], planned, [SUBJECT, other], CLAUSES, ENVIRONMENT, suite=SUITE, selected=set())
    assert "Scatter" in on_terminal(nothing)


def test_a_verdict_without_counts_has_no_empty_line_below_it():
    long = subject_ref(f"mypkg.{'dist' * 20}:Gather")
    planned = [plan(name, subject=long) for name in OWED]
    report = judge([], planned, [long], CLAUSES, ENVIRONMENT, suite=SUITE, selected=set())
    lines = on_terminal(report).strip().splitlines()
    at = next(at for at, line in enumerate(lines) if "Gather" in line)
    assert lines[at + 1].strip()


def test_the_verdict_on_a_clause_is_found_by_its_id():
    subject = judge([outcome(SUM)], [plan(SUM)], [SUBJECT], CLAUSES, ENVIRONMENT, suite=SUITE).subjects[0]
    assert subject.clause(SUM).verdict == "pass"
    with pytest.raises(KeyError, match=r"Function\.new\.thing"):
        subject.clause("Function.new.thing")


def test_what_is_only_told_is_a_note_and_not_counted():
    alone = on_terminal(with_note())
    assert "broken" not in alone
    assert "NOTE  Function.new.thing  (may)" in alone
    beside = on_terminal(with_note(outcome(SUM, "fail")))
    assert "1 broken clause" in beside
    assert beside.index(f"FAIL  {SUM}") < beside.index("NOTE  Function.new.thing")


def test_an_error_that_an_assertion_of_the_same_clause_quotes_is_told_by_the_assertion():
    raised = "RuntimeError: FBackward returned an invalid gradient at index 0"
    error = outcome(SUM, "error", message=f'{raised}\n  File "torch/graph.py", line 9, in run')
    fail = replace(outcome(SUM, "fail", message=f"a tensor [2]; PyTorch says: {raised}"), nodeid="x/test_y.py::test_y")
    text = on_terminal(made(error, fail), 160)
    assert "a tensor [2]; PyTorch says" in text
    assert "torch/graph.py" not in text
    assert "alike in" in text


NO_BACKWARD = "the class defines neither backward nor vjp"


@pytest.mark.parametrize("sum_applies", [True, False])
def test_a_verdict_without_any_gradient_says_why(sum_applies):
    clauses = ["Function.backward.count", "Function.backward.any-layout", f"{GATHER}.backward.sum"]
    own = [outcome(name, "not-applicable", reason=f"{NO_BACKWARD}; and more") for name in clauses[: 3 - sum_applies]]
    text = on_terminal(made(*own), 80)
    assert (f"            no gradient was judged: {NO_BACKWARD}\n" in text) is not sum_applies
