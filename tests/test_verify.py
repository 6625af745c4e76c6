"""A report that was tampered with is found out."""

from __future__ import annotations

import copy
import gc
import json
import os
import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conformance.cli.commands import main
from conformance.core.errors import UsageError
from conformance.core.joining import join
from conformance.report.expectations import Expectation, mark_expected
from conformance.report.files import to_text
from conformance.report.model import Expected
from conformance.report.verify import verify
from tests.made_up import CLAUSES, GATHER, SUITE, clause, made, outcome, subject_ref, with_clause

SUM = f"{GATHER}.backward.sum"
COUNT = "Function.backward.count"
WORDS = 'ValueError: no\n  File "mine.py", line 1, in forward'


def problems(tmp_path, report, clauses=CLAUSES, digest=SUITE["clauses_sha256"]):
    path = tmp_path / "report.json"
    path.write_text(report if isinstance(report, str) else to_text(report))
    return list(verify(path, clauses, digest, with_plan=False).problems)


@pytest.mark.parametrize("word", ["pass", "fail", "crash", "timeout", "error", "skip", "not-applicable"])
def test_an_honest_report_has_no_problem(tmp_path, word):
    guilty = None if word == "not-applicable" else [1]
    report = made(outcome(SUM, word, guilty=guilty, message="\x1b" * 10 + "\x0b\u2028\r\x85one\ntwo"))
    assert problems(tmp_path, report) == []
    entries = [Expectation(SUM, "*", "known")]
    assert problems(tmp_path, mark_expected(report, entries)[0]) == []


def tampered():
    honest, broken = made(), made(outcome(SUM, "fail", guilty=[1]))
    part = broken.subjects[0]
    failed = part.clauses[-1].tests[0]
    silent = replace(made().subjects[0].clauses[-1].tests[0], ranks=())
    yield "verdict of a clause", with_clause(broken, SUM, verdict="pass"), "is pass, but its outcomes say fail"
    whitewashed = with_clause(broken, SUM, verdict="pass", tests=(replace(failed, outcome="pass"),))
    yield "outcome of a test", whitewashed, "is pass, but its ranks say fail"
    yield "a rank left out", with_clause(honest, SUM, tests=(silent,)), "is pass, but its ranks say error"
    yield "no tests", with_clause(honest, SUM, tests=()), "is pass, but its outcomes say skipped"
    good = replace(broken, subjects=(replace(part, verdict="conforms"),))
    yield "verdict of a subject", good, "conforms, but the clauses say fails"
    yield "level", with_clause(broken, SUM, level="quality"), "is a must clause, not quality"
    yield "text's digest", with_clause(honest, SUM, text_sha256="f" * 12), "had another text"
    yield "text", with_clause(honest, SUM, text="Nothing is promised."), "has a text that is not the clause's"
    yield "page", with_clause(honest, SUM, page="https://evil"), "points to a page that does not state it"
    words = [outcome(name, "error", message=WORDS) for name in (SUM, COUNT)]
    caused = made(*words)
    yield "a cause", with_clause(caused, COUNT, reason="No.such.clause"), f"is a consequence of {SUM}, not of"
    yield "a consequence", with_clause(honest, SUM, verdict="consequence"), "is consequence, but its outcomes say pass"
    less = replace(broken, subjects=(replace(part, clauses=part.clauses[:-1], verdict="conforms"),))
    yield "a clause left out", less, f"clause {SUM} is missing"
    yield "the engine left out", replace(honest, engine=()), "engine: clause Function.backward.receives is missing"
    unknown = with_clause(honest, SUM, id="No.such.clause")
    yield "an unknown clause", unknown, "there is no clause No.such.clause"
    twice = replace(honest, subjects=(replace(part, clauses=part.clauses + part.clauses[:1], verdict="fails"),))
    yield "a clause twice", twice, f"clause {COUNT} is judged 2 times"
    yield "a subject twice", replace(honest, subjects=honest.subjects * 2), "judged 2 times"
    yield "nothing", replace(honest, engine=(), subjects=()), "the report is about nothing"
    foreign = with_clause(honest, SUM, tests=(outcome(COUNT),))
    yield "a test of another clause", foreign, f"is about {COUNT} and mypkg.dist:Gather"
    excused = with_clause(honest, SUM, expected=Expected("known"))
    yield "an excuse for a pass", excused, "said to be broken as expected, but is pass"
    digest = replace(honest, suite={**SUITE, "clauses_sha256": "1" * 64})
    yield "other clauses", digest, "made with other clauses"


@pytest.mark.parametrize(("report", "said"), [pytest.param(r, s, id=n) for n, r, s in tampered()])
def test_a_tampered_report_is_found_out(tmp_path, report, said):
    assert said in "\n".join(problems(tmp_path, report))


def test_a_clause_for_another_pytorch_needs_no_test(tmp_path):
    clauses = {**CLAUSES, "Function.new.thing": clause("Function.new.thing", versions="torch>=2.14")}
    report = made(clauses=clauses)
    assert problems(tmp_path, report, clauses) == []
    clauses["Function.new.thing"] = clause("Function.new.thing")
    assert "but its outcomes say skipped" in problems(tmp_path, report, clauses)[0]


def test_the_digest_is_that_of_the_installed_suite(tmp_path, monkeypatch):
    monkeypatch.setattr("conformance.report.verify.installed", lambda: "0" * 64)
    assert problems(tmp_path, made(), digest=None) == []


@pytest.mark.parametrize("content", ["", "{", "[" * 100_000])
def test_what_cannot_be_read_is_said_in_one_line(tmp_path, content):
    with pytest.raises(UsageError) as caught:
        problems(tmp_path, content)
    assert "\n" not in str(caught.value)
    with pytest.raises(UsageError, match="cannot read"):
        verify(tmp_path / "none.json", CLAUSES, "")


def test_many_problems_are_counted(tmp_path, capsys):
    report = made(subjects=[subject_ref(f"m:F{number}", "Function") for number in range(50)])
    bad = tuple(replace(part, verdict="fails") for part in report.subjects)
    found = problems(tmp_path, replace(report, subjects=bad))
    assert len(found) == 50
    assert main(["verify", str(tmp_path / "report.json")]) == 1
    *shown, last = capsys.readouterr().out.splitlines()
    assert len(shown) == 20
    assert re.search(r": \d+ problems, of which the first 20 are shown$", last)


def test_the_garbage_collector_runs_again_afterwards(tmp_path):
    problems(tmp_path, made())
    assert gc.isenabled()
    with pytest.raises(UsageError):
        problems(tmp_path, "{")
    assert gc.isenabled()


def test_a_subject_that_was_taken_out_is_noticed(tmp_path):
    data = made(subjects=[subject_ref("m:F"), subject_ref("m:G")]).to_json()
    del data["subjects"][1]
    assert problems(tmp_path, json.dumps(data)) == ["content_sha256: the report was changed after it was written"]
    del data["content_sha256"]
    assert problems(tmp_path, json.dumps(data)) == [
        "content_sha256 is missing: nothing tells whether the report is whole"
    ]


def test_a_report_that_was_only_laid_out_anew_is_in_order(tmp_path):
    data = made().to_json()
    assert problems(tmp_path, json.dumps(dict(reversed(data.items())), indent=7, ensure_ascii=False)) == []


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"schema": 2', '"schema": 2, "schema": 2', "has the key 'schema' twice"),
        ('"seconds": 0.25', '"seconds": 1e400', "1e400 is too large for a number"),
        ('"seconds": 0.25', '"seconds": NaN', "NaN is not a JSON number"),
    ],
)
def test_json_that_readers_understand_differently_is_refused(tmp_path, old, new, said):
    text = to_text(made())
    assert old in text
    with pytest.raises(UsageError, match=said):
        problems(tmp_path, text.replace(old, new, 1))


def test_a_pipe_is_refused_and_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UsageError, match="it is not a file"):
        verify(tmp_path / "pipe", CLAUSES)


def test_each_test_is_looked_at_once_however_many_subjects_there_are(tmp_path, monkeypatch):
    """So that the time grows as the report does, and not with its square."""
    looked = []
    monkeypatch.setattr(
        "conformance.report.verify.join", lambda ranks, world: looked.append(ranks) or join(ranks, world)
    )
    subjects = [subject_ref(f"m:F{number}", "Function") for number in range(300)]
    report = made(subjects=subjects)
    assert problems(tmp_path, report) == []
    assert len(looked) == sum(len(clause.tests) for part in report.parts for clause in part.clauses)


PLACES = [
    (),
    ("schema",),
    ("suite",),
    ("suite", "clauses_sha256"),
    ("environment", "torch"),
    ("engine",),
    ("engine", 0),
    ("subjects",),
    ("subjects", 0),
    ("subjects", 0, "spec"),
    ("subjects", 0, "verdict"),
    ("subjects", 0, "clauses"),
    ("subjects", 0, "clauses", 0, "id"),
    ("subjects", 0, "clauses", 0, "text"),
    ("subjects", 0, "clauses", 0, "expected"),
    ("subjects", 0, "clauses", 0, "tests", 0),
    ("subjects", 0, "clauses", 0, "tests", 0, "world"),
    ("subjects", 0, "clauses", 0, "tests", 0, "ranks"),
    ("subjects", 0, "clauses", 0, "tests", 0, "ranks", 0, "rank"),
    ("subjects", 0, "clauses", 0, "tests", 0, "ranks", 0, "collectives"),
]
junk = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5)
    | st.sampled_from(["pass", "fail", "conforms", 1.0, 2.0, 10**30]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["id", "rank", "reason", "subject", "x"]), inner, max_size=3)
    ),
    max_leaves=4,
)
HONEST = made(outcome(SUM, "fail", guilty=[1])).to_json()


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(PLACES), junk)
def test_any_value_anywhere_gives_problems_and_no_traceback(tmp_path_factory, place, value):
    data = copy.deepcopy(HONEST)
    here = data
    for step in place[:-1]:
        here = here[step]
    if place:
        here[place[-1]] = value
    found = problems(tmp_path_factory.getbasetemp(), json.dumps(data if place else value))
    assert not any("\n" in line for line in found)
    if not place:
        assert found
