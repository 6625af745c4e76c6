"""A report that was tampered with is found out."""

from __future__ import annotations

import copy
import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conformance.core.errors import UsageError
from conformance.report.expectations import Expectation, apply
from conformance.report.files import to_text
from conformance.report.model import Expected
from conformance.report.verify import verify
from tests.made_up import CLAUSES, GATHER, SUITE, clause, made, outcome, with_clause

SUM = f"{GATHER}.backward.sum"
COUNT = "Function.backward.count"


def problems(tmp_path, report, clauses=CLAUSES, digest=SUITE["clauses_sha256"]):
    path = tmp_path / "report.json"
    path.write_text(report if isinstance(report, str) else to_text(report))
    return verify(path, clauses, digest)


@pytest.mark.parametrize("word", ["pass", "fail", "crash", "timeout", "error", "skip", "not-applicable"])
def test_an_honest_report_has_no_problem(tmp_path, word):
    report = made(outcome(SUM, word, guilty=[1], message="\x1b" * 100))
    assert problems(tmp_path, report) == []
    entries = [Expectation(SUM, "*", "known")]
    assert problems(tmp_path, apply(report, entries)[0]) == []


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
    yield "text", with_clause(honest, SUM, text_sha256="f" * 12), "had another text"
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
    monkeypatch.setattr("conformance.core.clauses.digest", lambda: "0" * 64)
    assert problems(tmp_path, made(), digest=None) == []


@pytest.mark.parametrize("content", ["", "{", "[" * 100_000])
def test_what_cannot_be_read_is_said_in_one_line(tmp_path, content):
    with pytest.raises(UsageError) as caught:
        problems(tmp_path, content)
    assert "\n" not in str(caught.value)
    with pytest.raises(UsageError, match="cannot read"):
        verify(tmp_path / "none.json", CLAUSES, "")


def test_many_problems_are_counted(tmp_path):
    data = made().to_json()
    data["subjects"] = [{}] * 50
    found = problems(tmp_path, json.dumps(data))
    assert len(found) == 21
    assert found[-1] == "and 180 more problems"


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
