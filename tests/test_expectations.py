"""Known deviations do not count, but an entry that has had its day does."""

from __future__ import annotations

import os
from datetime import date

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conformance.core.errors import UsageError
from conformance.report.expectations import Expectation, mark_expected, read_expect, write_expect
from conformance.report.verdicts import exit_status
from tests.made_up import CLAUSES, GATHER, SUBJECT, made, outcome, subject_ref

SUM = f"{GATHER}.backward.sum"
GOOD = f"""
[[expect]]
clause = "{SUM}"
subject = "mypkg.dist:*"
reason = "known"
"""
TODAY = date(2026, 11, 21)


def entry(clause=SUM, subject="mypkg.dist:*", **more):
    return Expectation(clause, subject, "known", place="file, line 1", **more)


def read(tmp_path, text):
    path = tmp_path / "expect.toml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_expect(path, CLAUSES)


def test_a_whole_entry_is_read(tmp_path):
    text = GOOD + 'link = "https://x"\nexpires = 2027-01-31\nversions = "torch < 2.14"\n'
    (only,) = read(tmp_path, text)
    assert only == Expectation(
        SUM,
        "mypkg.dist:*",
        "known",
        "https://x",
        date(2027, 1, 31),
        "torch < 2.14",
        f"{tmp_path}/expect.toml, line 2",
    )


def test_an_empty_file_expects_nothing(tmp_path):
    assert read(tmp_path, "# nothing\n") == ()


@pytest.mark.parametrize("when", ["2027-01-31", '"2027-01-31"', "2027-01-31T00:00:00Z"])
def test_a_date_may_be_written_in_several_ways(tmp_path, when):
    assert read(tmp_path, f"{GOOD}expires = {when}")[0].expires == date(2027, 1, 31)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (GOOD.replace(SUM, "No.such.clause"), "line 2: there is no clause 'No.such.clause'"),
        (GOOD.replace('reason = "known"', ""), "line 2: reason is missing"),
        (GOOD.replace('"known"', '" "'), "line 2: reason is empty: say why this is accepted"),
        (GOOD.replace('"known"', "3"), "line 2: reason must be a string"),
        (GOOD + "severity = 3", "line 2: unknown key 'severity'"),
        (GOOD + 'expires = "tomorrow"', "line 2: expires must be a date"),
        (GOOD + "expires = 12:00:00", "line 2: expires must be a date"),
        (GOOD + 'versions = "soon"', "line 2: versions must look like"),
        (GOOD + GOOD, "line 7: duplicates"),
        ("[[expect]\n", "not valid TOML"),
        ("[[expects]]\n", "every entry begins with [[expect]] or [[judged]], not 'expects'"),
        ("[expect]\n", "every entry begins with [[expect]]"),
        ("expect = [1]\n", "every entry begins with [[expect]]"),
        ('expect = [{clause = "x"}]', "entry 1: subject is missing"),
        (b"\xff", "not UTF-8"),
        ("a = " + "[" * 100_000, "not valid TOML"),
    ],
)
def test_a_wrong_file_is_refused_in_one_line_that_says_where(tmp_path, text, said):
    with pytest.raises(UsageError) as caught:
        read(tmp_path, text)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_there(tmp_path):
    for path in (tmp_path / "none.toml", tmp_path):
        with pytest.raises(UsageError, match="cannot read"):
            read_expect(path, CLAUSES)


keys = st.sampled_from(["clause", "subject", "reason", "link", "expires", "versions", "expect", "x"])
values = st.sampled_from(
    [f'"{SUM}"', '"*"', '""', "1", "[]", "2027-01-01", '"torch<3"', '"<"', "{}", "nan", '"\\u001b"']
)
lines = st.one_of(
    st.sampled_from(["[[expect]]", "[expect]", "#", "'''", '"""']),
    st.builds("{} = {}".format, keys, values),
    st.text(max_size=10),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(lines, max_size=12).map("\n".join) | st.binary(max_size=40))
def test_any_file_gives_entries_or_a_clear_error(tmp_path_factory, text):
    try:
        entries = read(
            tmp_path_factory.getbasetemp(), text if isinstance(text, bytes) else text.encode("utf-8", "replace")
        )
    except UsageError as problem:
        assert "\n" not in str(problem)
        assert str(problem).isprintable()
    else:
        mark_expected(made(outcome(SUM, "fail")), entries, TODAY)


JUDGED = f"""
[[judged]]
subject = "{SUBJECT.label}"
clauses = ["{SUM}", "of.another.release"]
"""


@pytest.mark.parametrize(
    "text",
    ['[[judged]]\nsubject = "a:B"\n', '[[judged]]\nclauses = []\n', JUDGED + "reason = 3\n", "[judged]\n",
     '[[judged]]\nsubject = "a:B"\nclauses = [1]\n'],
)  # fmt: skip
def test_what_was_judged_is_refused_if_it_is_written_wrongly(tmp_path, text):
    with pytest.raises(UsageError, match=r"judged|clauses must be ids"):
        read(tmp_path, text)


@pytest.mark.parametrize(("word", "told"), [("skip", 1), ("not-applicable", 1), ("pass", 0), ("fail", 0)])
def test_a_clause_that_is_no_longer_judged_is_a_problem(tmp_path, word, told):
    _, problems = mark_expected(made(outcome(SUM, word, reason="no GPU here")), read(tmp_path, JUDGED), TODAY)
    assert len(problems) == told
    assert all(f"line 2: {SUM} was judged, and is" in problem for problem in problems)
    assert all(problem.endswith("no GPU here") for problem in problems)


def test_a_subject_that_is_gone_is_a_problem(tmp_path):
    entries = read(tmp_path, JUDGED.replace(SUBJECT.label, "a:Gone"))
    _, problems = mark_expected(made(), entries, TODAY)
    assert "there is no subject 'a:Gone' in this run" in problems[0]


def test_what_is_written_down_is_what_was_judged(tmp_path):
    path = write_expect(made(outcome(SUM, "skip")), tmp_path / "new.toml")
    (judged,) = read_expect(path, CLAUSES)
    assert SUM not in judged.clauses
    assert "Function.backward.count" in judged.clauses


@pytest.mark.parametrize("word", ["fail", "crash", "timeout", "error"])
def test_an_expected_break_does_not_fail_the_subject_but_it_never_conforms(word):
    report, problems = mark_expected(made(outcome(SUM, word)), [entry(link="https://x")], TODAY)
    assert problems == []
    assert report.subjects[0].verdict == "deviates"
    own = report.subjects[0].clauses[-1]
    assert (own.verdict, own.expected.reason, own.expected.link) == (word, "known", "https://x")
    assert exit_status(report) == exit_status(report, strict=True) == 0


def test_another_break_still_counts():
    report, problems = mark_expected(
        made(outcome(SUM, "fail"), outcome("Function.backward.count", "fail")), [entry()], TODAY
    )
    assert (report.subjects[0].verdict, problems) == ("fails", [])


def test_what_was_skipped_is_still_missing():
    report, _ = mark_expected(made(outcome(SUM, "fail"), outcome("Function.backward.count", "skip")), [entry()], TODAY)
    assert report.subjects[0].verdict == "incomplete"


def test_the_glob_decides_who_is_excused():
    other = subject_ref("other:Gather")
    broken = [outcome(SUM, "fail"), outcome(SUM, "fail", subject=other)]
    report, _ = mark_expected(made(*broken, subjects=[SUBJECT, other]), [entry()], TODAY)
    assert [part.verdict for part in report.subjects] == ["deviates", "fails"]
    report, _ = mark_expected(made(*broken, subjects=[SUBJECT, other]), [entry(subject="*")], TODAY)
    assert [part.verdict for part in report.subjects] == ["deviates", "deviates"]


def test_the_engine_has_a_name():
    broken = made(outcome("Function.backward.receives", "fail", subject=None))
    report, problems = mark_expected(broken, [entry("Function.backward.receives", "engine")], TODAY)
    assert (exit_status(report), problems) == (0, [])
    report, problems = mark_expected(broken, [entry("Function.backward.receives", "*")], TODAY)
    assert exit_status(report) == 1
    assert "matches nothing" in problems[0]


@pytest.mark.parametrize(
    ("word", "more", "problem"),
    [
        ("fail", {"subject": "nobody"}, "matches nothing"),
        ("fail", {"clause": "GradFactor.forward.identity"}, "matches nothing"),
        ("pass", {}, "passes now"),
        ("not-applicable", {}, "does not apply"),
        ("fail", {"expires": date(2026, 11, 20)}, "expired on 2026-11-20"),
    ],
)
def test_an_entry_that_has_had_its_day_is_a_problem(word, more, problem):
    report, problems = mark_expected(made(outcome(SUM, word)), [entry(**more)], TODAY)
    assert len(problems) == 1
    assert problem in problems[0]
    assert problems[0].startswith("file, line 1: ")
    assert report == made(outcome(SUM, word)), "and it excuses nothing"


@pytest.mark.parametrize(
    ("word", "more"),
    [
        ("fail", {"expires": TODAY}),
        ("skip", {}),
        ("pass", {"versions": "torch >= 2.14"}),
        ("fail", {"versions": "torch < 2.14"}),
    ],
)
def test_an_entry_that_may_stay(word, more):
    assert mark_expected(made(outcome(SUM, word)), [entry(**more)], TODAY)[1] == []


def test_an_entry_for_another_pytorch_excuses_nothing():
    report, _ = mark_expected(made(outcome(SUM, "fail")), [entry(versions="torch >= 2.14")], TODAY)
    assert report.subjects[0].verdict == "fails"


@given(st.text(max_size=30))
@settings(deadline=None)
def test_a_first_file_excuses_exactly_what_is_broken(tmp_path_factory, words):
    odd = subject_ref("mypkg.dist:F[*]?")
    broken = made(
        outcome(SUM, "fail", subject=odd, message=words),
        outcome("Function.backward.receives", "crash", subject=None, message='\x1b\x7f"\\'),
        subjects=[odd],
    )
    path = tmp_path_factory.getbasetemp() / "first.toml"
    path.unlink(missing_ok=True)
    write_expect(broken, path)
    with pytest.raises(UsageError, match="reason is empty: say why"):
        read_expect(path, CLAUSES)
    path.write_text(path.read_text("utf-8").replace('reason = ""', 'reason = "known"'), "utf-8")
    report, problems = mark_expected(broken, read_expect(path, CLAUSES), TODAY)
    assert problems == []
    assert report.subjects[0].verdict == "deviates"
    assert exit_status(report) == 0
    with pytest.raises(UsageError, match="exists already"):
        write_expect(broken, path)


def test_a_first_file_that_cannot_be_written(tmp_path):
    with pytest.raises(UsageError, match="cannot write"):
        write_expect(made(), tmp_path / "no" / "folder.toml")
    assert os.listdir(tmp_path) == []
