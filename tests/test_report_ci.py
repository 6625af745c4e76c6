"""The report where machines read it: annotations and summaries on GitHub, JUnit."""

from __future__ import annotations

import io
from xml.etree import ElementTree

import pytest

from conformance.core.errors import UsageError
from conformance.report import github
from conformance.report.junit import junit
from tests.made_up import (
    SUM,
    made,
    nasty,
    on_terminal,
    outcome,
    plan,
    with_note,
)


def test_a_log_on_github_obeys_no_subject(monkeypatch):
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    report = made(outcome(SUM, "skip", reason="::error::x ##[group]x"), outcome("Function.backward.count", "fail"))
    for text in (on_terminal(nasty()), on_terminal(report)):
        assert "##[" not in text
        assert not [line for line in text.splitlines() if line.strip().startswith("::")]


def test_annotations_on_github(tmp_path):
    report = made(
        outcome(SUM, "fail", message="100% wrong\nand more"),
        outcome("Function.backward.any-layout", "fail", message="a, b: c"),
    )
    file = io.StringIO()
    summary = tmp_path / "summary.md"
    github.publish(report, file, {"GITHUB_ACTIONS": "true", "GITHUB_STEP_SUMMARY": str(summary)})
    must, quality = file.getvalue().splitlines()
    assert must.startswith(f"::error title=mypkg.dist%3AGather%3A {SUM}::What {SUM} says.%0A100%25 wrong%0A")
    assert quality.startswith("::warning title=")
    assert "**fails**" in summary.read_text()
    quiet = io.StringIO()
    github.publish(report, quiet, {})
    assert quiet.getvalue() == ""
    with pytest.raises(UsageError, match="cannot write"):
        github.publish(report, quiet, {"GITHUB_ACTIONS": "true", "GITHUB_STEP_SUMMARY": str(tmp_path)})


def test_markdown_of_a_subject_is_only_text():
    summary = github.summary(made(outcome(SUM, "fail", message="| [x](http://evil) <img src=x> `a`")))
    assert "<img" not in summary
    assert "](" not in summary


def test_junit_counts_failures_and_errors():
    root = ElementTree.fromstring(junit(made(outcome(SUM, "fail"), outcome("Function.backward.count", "crash"))))
    engine, subject = root.findall("testsuite")
    assert engine.get("name") == "engine"
    assert [subject.get(key) for key in ("tests", "failures", "errors", "skipped")] == ["4", "1", "1", "0"]
    root = ElementTree.fromstring(junit(made(outcome(SUM, "skip"), planned=[plan(SUM, function="test_n")])))
    assert root.findall("testsuite")[1].get("skipped") == "2"


def test_what_is_only_told_is_no_failure():
    file = io.StringIO()
    github.publish(with_note(), file, {"GITHUB_ACTIONS": "true"})
    assert file.getvalue().startswith("::notice title=mypkg.dist%3AGather%3A Function.new.thing::")
    root = ElementTree.fromstring(junit(with_note()))
    assert not [*root.iter("failure"), *root.iter("error")]
    assert "note: another way" in [case.get("message") for case in root.iter("skipped")]


def test_an_annotation_has_the_actual_and_the_expected_value():
    (line,) = github.commands(made(outcome(SUM, "fail", message="the gradient\nactual:   1\nexpected: 2")))
    assert "%0Athe gradient%0Aactual:   1%0Aexpected: 2" in line
