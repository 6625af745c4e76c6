"""Every form of a report says the same, survives whatever a subject prints, and obeys none of it."""

from __future__ import annotations

import io
import json
import os
import stat
from dataclasses import replace
from email.message import Message
from importlib.resources import files
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from conformance.core.errors import UsageError
from conformance.core.joining import joined
from conformance.core.outcomes import OUTCOMES, RankOutcome, TestOutcome
from conformance.kit.deviations import Deviation
from conformance.report import github, schema
from conformance.report.badge import badge, badge_of
from conformance.report.failures import by_cause, failures
from conformance.report.files import load, prepare, read, to_text, write_all
from conformance.report.html import page
from conformance.report.junit import junit
from conformance.report.model import Expected, Report
from conformance.report.progress import Progress
from conformance.report.terminal import show, terminal
from conformance.report.text import _documentation, address, one_line, visible
from conformance.report.verdicts import judge
from tests.made_up import (
    CLAUSES,
    ENVIRONMENT,
    GATHER,
    SUBJECT,
    SUITE,
    engine_passes,
    made,
    outcome,
    plan,
    subject_ref,
)

SUM = f"{GATHER}.backward.sum"
NASTY = (
    "\x1b[31mred\x00\ud800 <script>alert(1)</script> [bold]x[/bold] :smile: ]]>\r\n" + "::error::x ##[add-mask]x \u202e"
)
MESSAGE = str(Deviation("gradient of x", "tensor([0.5, 0.5])", "tensor([1., 1.])", "mean instead of sum"))


def broken(word="fail", **more):
    """A report with one broken clause; rank 1 of 2 is to blame."""
    more = {
        "node": "suite/test_x.py::test_sum[ranks2]",
        "guilty": [1],
        "message": MESSAGE,
        "likely": "mean instead of sum",
        **more,
    }
    return made(outcome(SUM, word, **more))


def on_terminal(report, width=80, **more):
    file = io.StringIO()
    show(report, terminal(file, width=width), **more)
    return file.getvalue()


def nasty():
    """A report in which the subject wrote every text."""
    rank = RankOutcome(1, "crash", NASTY, NASTY, -11, "SIGSEGV", NASTY, NASTY, (NASTY,))
    test = outcome(SUM, "crash", guilty=[1])
    test = replace(test, ranks=(test.ranks[0], rank), message=NASTY, likely=NASTY, reason=NASTY, reproduce=NASTY)
    return made(test, outcome("Function.backward.count", "skip", reason=NASTY))


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
    assert {"subject", "spec", "verdict", "clauses"} == set(subject)
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
    assert "<script" not in page(nasty())
    assert "[bold]x[/bold]" in on_terminal(nasty())
    assert ":smile:" in on_terminal(nasty())


def test_text_of_ten_megabytes_is_clipped_everywhere():
    report = broken(message="x" * 10_000_000)
    assert len(on_terminal(report)) < 20_000
    assert "characters left out" in on_terminal(report)
    for form in (to_text(report), page(report), junit(report)):
        assert len(form) < 200_000


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


def test_lines_fit_except_commands_to_be_copied():
    for width in (60, 80, 160):
        lines = on_terminal(nasty(), width, verbose=True).splitlines()
        kept_whole = ("reproduce", "read ")
        assert all(len(line) <= width for line in lines if not line.strip().startswith(kept_whole))


def test_a_summary_line_for_each_subject_and_one_for_the_engine():
    text = on_terminal(made(outcome("Function.backward.any-layout", "fail")))
    assert "PyTorch 2.13.0+cpu keeps 1 of 1 engine clauses" in text
    assert f"deviates    mypkg.dist:Gather ({GATHER})" in text
    assert "must 2/2  should 1/1  quality 0/1" in text


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
    assert "alike in   2 more: t.py::t[3], t.py::t[4]" in text


def test_one_accident_that_breaks_every_clause_is_told_once():
    names = ("Function.backward.count", "Function.save_for_backward.once", SUM)
    report = made(*(outcome(name, "error", message="cannot import mypkg") for name in names))
    broken_ = [own for own in report.subjects[0].clauses if own.broken]
    assert [(own.id, len(others)) for own, others in by_cause(broken_)] == [(names[0], 2)]
    text = on_terminal(report)
    assert text.count("cannot import mypkg") == 1
    assert "likewise   2 more clauses" in text


def test_two_failed_assertions_are_never_one_thing():
    names = ("Function.backward.count", SUM)
    report = made(*(outcome(name, "fail", message="wrong") for name in names))
    assert len(list(by_cause(own for own in report.subjects[0].clauses if own.broken))) == 2


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


def test_ranks_are_named_worst_first_in_every_form():
    test = outcome(SUM, "crash", world=2)
    ranks = (RankOutcome(0, "error", "closed"), RankOutcome(1, "crash", "died"))
    report = made(replace(test, ranks=ranks))
    (failure,) = failures(report.subjects[0].clauses[-1])
    assert [who.ranks for who in failure.accused] == [(1,), (0,)]
    assert page(report).index("died") < page(report).index("closed")


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


def test_colours_only_where_they_are_wanted(monkeypatch):
    for name in ("FORCE_COLOR", "NO_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)
    assert "\x1b" not in on_terminal(broken())
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    assert "\x1b[1;31m" in on_terminal(broken())
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[1;31m" not in on_terminal(broken())


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


def test_junit_counts():
    root = ElementTree.fromstring(junit(made(outcome(SUM, "fail"), outcome("Function.backward.count", "crash"))))
    engine, subject = root.findall("testsuite")
    assert engine.get("name") == "engine"
    assert [subject.get(key) for key in ("tests", "failures", "errors", "skipped")] == ["4", "1", "1", "0"]
    root = ElementTree.fromstring(junit(made(outcome(SUM, "skip"), planned=[plan(SUM, function="test_n")])))
    assert root.findall("testsuite")[1].get("skipped") == "2"


def test_the_page_loads_and_runs_nothing():
    text = page(broken())
    assert "default-src 'none'" in text
    for word in ("<script", "src=", "@import", "url(", "<link", "onclick", "<form"):
        assert word not in text


def test_the_page_links_to_the_web_alone():
    report = broken()
    own = report.subjects[0].clauses
    bad = tuple(replace(one, expected=Expected("why", "javascript:alert(1)")) for one in own)
    assert 'href="javascript' not in page(replace(report, subjects=(replace(report.subjects[0], clauses=bad),)))


@pytest.mark.parametrize("verdict", ["conforms", "deviates", "fails", "incomplete"])
def test_badges_are_pictures(verdict):
    root = ElementTree.fromstring(badge_of(verdict))
    assert root.get("aria-label") == f"conformance: {verdict}"


def test_the_badge_shows_the_worst_verdict():
    assert "fails" in badge(broken())
    assert "conforms" in badge(made())
    assert "fails" in badge(made(outcome("Function.backward.receives", "fail", subject=None)))


def test_a_folder_that_cannot_be_written_to_is_said_up_front(tmp_path):
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "file", tmp_path / "file" / "below", "/proc/nowhere", "a\0b"):
        with pytest.raises(UsageError, match=r"cannot write reports to .*: .+") as caught:
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


def test_the_page_of_a_clause_has_the_address_of_the_site(monkeypatch):
    monkeypatch.setenv("CONFORMANCE_DOCS", "https://docs.example.org/conf/")
    assert address("api/x.html#c") == "https://docs.example.org/conf/api/x.html#c"


@pytest.mark.parametrize("given", ["", "javascript:alert(1)//"])
def test_without_a_site_in_the_environment_the_installed_package_names_it(monkeypatch, given):
    monkeypatch.setenv("CONFORMANCE_DOCS", given)
    monkeypatch.setattr("conformance.report.text.metadata", lambda name: installed("https://other.example/"))
    _documentation.cache_clear()
    assert address("api/x.html#c") == "https://other.example/api/x.html#c"
    monkeypatch.setattr("conformance.report.text.metadata", lambda name: installed())
    _documentation.cache_clear()
    assert address("api/x.html#c") == "api/x.html#c"
    _documentation.cache_clear()


def installed(*sites):
    """The metadata of an installed package."""
    made = Message()
    made["Project-URL"] = "Source, https://source.example/"
    for site in sites:
        made["Project-URL"] = f"Documentation, {site}"
    return made


def test_a_bystander_is_named_last_and_as_one_in_every_form():
    waited = RankOutcome(0, "timeout", "still running when another rank had failed", bystander=True)
    raised = RankOutcome(1, "error", "ValueError: not today")
    report = made(joined(plan(SUM), [waited, raised], 0.5))
    (own,) = (own for own in report.subjects[0].clauses if own.broken)
    assert own.verdict == "error"
    assert own.tests[0].to_json()["ranks"][0]["bystander"] is True
    for form in (on_terminal(report), page(report).split("<body>")[1], junit(report)):
        assert form.index("ValueError: not today") < form.index("bystander") < form.index("still running")
        assert "timeout" not in form.lower()


def several(count):
    """A report on many subjects, of which two are broken."""
    refs = [subject_ref(f"pkg.layers:F{number}", "Function") for number in range(count)]
    return made(*(outcome("Function.backward.count", "fail", subject=ref) for ref in refs[-2:]), subjects=refs)


def test_the_page_shows_what_is_broken_first_and_open():
    shown = page(several(300))
    first = shown.index("<section")
    assert "pkg.layers:F298" in shown[first : shown.index("pkg.layers:F299")]
    assert shown.index("pkg.layers:F299") < shown.index("pkg.layers:F0<") < shown.index("Verdicts</h2>")
    assert shown.count('<details class="clause broken" open>') == 2


def test_pytorch_is_one_folded_line_of_the_page_where_all_its_clauses_pass():
    shown = page(broken())
    line = next(line for line in shown.splitlines() if "PyTorch itself" in line)
    assert line.startswith('<details id="part-1"><summary>')
    assert "1 passed" in line
    assert shown.index("<section") < shown.index(line)


def test_empty_facts_are_left_out_of_the_page():
    report = made()
    report = replace(report, environment={**report.environment, "cuda": "", "nccl": "2.28.9"})
    assert "<dt>nccl</dt><dd>2.28.9</dd>" in page(report)
    assert "<dt>cuda</dt>" not in page(report)


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
    assert "Not selected: 1 clauses of PyTorch itself and 3 of the subject." in told
    assert "must 1/1" in told
    assert "engine clauses" not in told
    assert "0/" not in told
    assert "skipped" not in told
    assert "3 not selected" in page(report)
