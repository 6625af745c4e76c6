"""Every form of a report says the same, survives whatever a subject prints, and obeys none of it."""

from __future__ import annotations

import json
import os
import stat
from dataclasses import replace
from importlib.resources import files
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from conformance.core.errors import UsageError
from conformance.core.joining import joined
from conformance.core.outcomes import OUTCOMES, RankOutcome
from conformance.report import github, schema
from conformance.report.failures import by_cause, failures
from conformance.report.files import load, prepare, read, to_text, write_all
from conformance.report.html import page
from conformance.report.junit import junit
from conformance.report.model import Report
from conformance.report.text import one_line, visible
from tests.made_up import (
    GATHER,
    SUBJECT,
    SUM,
    broken,
    made,
    nasty,
    on_terminal,
    outcome,
    plan,
)

texts = st.text(st.characters(codec=None, categories=None), max_size=40)


outcomes = st.builds(
    outcome,
    st.just(SUM),
    st.sampled_from(OUTCOMES),
    world=st.integers(1, 3),
    message=texts,
    reason=texts,
    likely=texts,
    node=texts,
)


def test_a_report_survives_being_written_and_read(tmp_path):
    report = broken()
    assert {path.name for path in write_all(report, tmp_path)} == {
        "report.json",
        "report.html",
        "junit.xml",
        "badge.svg",
    }
    assert read(tmp_path / "report.json") == report
    assert not list(tmp_path.glob(".*")), "no temporary file is left"
    assert stat.S_IMODE((tmp_path / "report.json").stat().st_mode) & 0o044 == 0o044 & ~os.umask(os.umask(0o22))


def test_report_json_has_the_published_keys():
    data = broken().to_json()
    assert {"schema", "suite", "environment", "engine", "subjects"} <= set(data)
    subject = data["subjects"][0]
    assert {"subject", "spec", "verdict", "clauses", "ranks"} == set(subject)
    own = next(own for own in subject["clauses"] if own["id"] == SUM)
    assert {"id", "level", "verdict", "reason", "tests"} <= set(own)
    assert {"nodeid", "outcome", "seconds", "message", "ranks", "reproduce"} <= set(own["tests"][0])
    assert {"rank", "outcome", "message", "exitcode"} <= set(own["tests"][0]["ranks"][0])
    assert data["schema"] == 2


def test_the_published_schema_is_made_from_the_types():
    """Mend it by ``python -m conformance.report.schema > conformance/report/schema.json``."""
    assert files("conformance.report").joinpath("schema.json").read_text("utf-8") == schema.text()


def test_a_report_keeps_the_published_schema():
    Draft202012Validator.check_schema(schema.schema())
    Draft202012Validator(schema.schema()).validate(nasty().to_json())


@settings(max_examples=60, deadline=None)
@given(st.lists(outcomes, max_size=4), texts, st.floats(min_value=0) | st.just(float("nan")))
def test_any_text_in_any_field_gives_every_form(tests, note, seconds):
    report = made(*tests, seconds=seconds, started=note)
    data = json.loads(to_text(report))
    assert Report.from_json(data).to_json() == data
    ElementTree.fromstring(junit(report).encode("utf-8"))
    page(report).encode("utf-8")
    for width in (20, 80):
        assert not {sign for sign in on_terminal(report, width) if not (sign.isprintable() or visible(sign) == sign)}
    assert "\n" not in "".join(github.commands(report))


def test_hidden_text_is_shown_and_not_obeyed():
    for text in (on_terminal(nasty()), page(nasty()), junit(nasty()), to_text(nasty())):
        text.encode("utf-8")
        assert not set("\x1b\x00\u202e") & set(text)
        assert "x1b[31mred" in text
    assert page(nasty()).count("<script") == 1  # its own
    assert "[bold]x[/bold]" in on_terminal(nasty())
    assert ":smile:" in on_terminal(nasty())


def test_text_of_ten_megabytes_is_clipped_everywhere():
    report = broken(message="x" * 10_000_000)
    assert len(on_terminal(report)) < 20_000
    assert "characters left out" in on_terminal(report)
    for form in (to_text(report), page(report), junit(report)):
        assert len(form) < 200_000


def test_two_failed_assertions_are_never_one_thing():
    names = ("Function.backward.count", SUM)
    report = made(*(outcome(name, "fail", message="wrong") for name in names))
    assert len(list(by_cause(own for own in report.subjects[0].clauses if own.broken))) == 2


def test_ranks_are_named_worst_first_in_every_form():
    test = outcome(SUM, "crash", world=2)
    ranks = (RankOutcome(0, "error", "closed"), RankOutcome(1, "crash", "died"))
    report = made(replace(test, ranks=ranks))
    (failure,) = failures(report.subjects[0].clauses[-1])
    assert [who.ranks for who in failure.accused] == [(1,), (0,)]
    assert page(report).index("died") < page(report).index("closed")


def test_a_folder_that_cannot_be_written_to_is_said_up_front(tmp_path):
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "file", tmp_path / "file" / "below", "/proc/nowhere", "a\0b"):
        with pytest.raises(UsageError, match=r"cannot write to .*: .+") as caught:
            prepare(place)
        assert "\n" not in str(caught.value)
    assert prepare(tmp_path / "new" / "folder").is_dir()


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_disk_leaves_the_earlier_report_alone(tmp_path, monkeypatch):
    write_all(made(), tmp_path)
    before = (tmp_path / "report.json").read_bytes()

    def full(number):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("conformance.report.files.os.fsync", full)
    with pytest.raises(UsageError, match=r"cannot write .*report.json: No space left on device"):
        write_all(broken(), tmp_path)
    assert (tmp_path / "report.json").read_bytes() == before
    assert len(list(tmp_path.iterdir())) == 4


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b"[" * 100_000, b"1" * 5_000, b'{"a": NaN}', b"[]", b"{}"])
def test_a_file_that_is_no_report_is_refused_in_one_line(tmp_path, content):
    path = tmp_path / "report.json"
    path.write_bytes(content)
    with pytest.raises(UsageError) as caught:
        read(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_number_that_json_does_not_know_is_refused(tmp_path):
    (tmp_path / "report.json").write_text(to_text(made()).replace('"seconds": 0.25', '"seconds": NaN', 1))
    with pytest.raises(UsageError, match="NaN is not a JSON number"):
        load(tmp_path / "report.json")


def test_a_report_of_another_producer_needs_only_the_published_keys(tmp_path):
    data = broken().to_json()
    for own in data["subjects"][0]["clauses"]:
        for test in own["tests"]:
            for key in set(test) - {"nodeid", "outcome", "seconds", "message", "ranks", "reproduce"}:
                del test[key]
    (tmp_path / "report.json").write_text(json.dumps(data))
    report = read(tmp_path / "report.json")
    test = report.subjects[0].clauses[-1].tests[0]
    assert (test.clause, test.subject, test.spec, test.world) == (SUM, SUBJECT.label, GATHER, 2)
    on_terminal(report)


def test_escapes_and_first_lines():
    assert visible("tab\there\r\nnew") == "tab\there\nnew"
    assert visible("\r") == "\\x0d"
    assert one_line("") == ""
    assert len(one_line("x" * 1000)) == 200


def test_a_bystander_is_named_last_and_as_one_in_every_form():
    waited = RankOutcome(0, "timeout", "was still running after another rank failed", bystander=True)
    raised = RankOutcome(1, "error", "ValueError: not today")
    report = made(joined(plan(SUM), [waited, raised], 0.5))
    (own,) = (own for own in report.subjects[0].clauses if own.broken)
    assert own.verdict == "error"
    assert own.tests[0].to_json()["ranks"][0]["bystander"] is True
    for form in (on_terminal(report), page(report).split("<body>")[1], junit(report)):
        assert form.index("ValueError: not today") < form.index("bystander") < form.index("still running")
        assert "timeout" not in form.lower()
