"""The report as a page, and badges: nothing is loaded, and what is broken comes first."""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import replace
from email.message import Message
from xml.etree import ElementTree

import pytest

from conformance.report.badge import badge, badge_of
from conformance.report.html import page
from conformance.report.model import Expected
from conformance.report.text import _documentation, address
from tests.made_up import (
    CLAUSES,
    broken,
    clause,
    made,
    outcome,
    subject_ref,
    with_note,
)


def installed(*sites):
    """The metadata of an installed package."""
    made = Message()
    made["Project-URL"] = "Source, https://source.example/"
    for site in sites:
        made["Project-URL"] = f"Documentation, {site}"
    return made


def several(count):
    """A report on many subjects, of which two are broken."""
    refs = [subject_ref(f"pkg.layers:F{number}", "Function") for number in range(count)]
    return made(*(outcome("Function.backward.count", "fail", subject=ref) for ref in refs[-2:]), subjects=refs)


def test_the_page_loads_nothing_and_runs_its_own_script_alone():
    text = page(broken())
    assert "default-src 'none'" in text
    (script,) = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in text
    assert text.count("<script") == 1
    for word in ("src=", "@import", "url(", "<link", "onclick", "<form"):
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


def test_the_page_shows_what_is_broken_first_and_open():
    shown = page(several(300))
    first = shown.index("<section")
    second = shown.index("pkg.layers:F299", first)
    assert "pkg.layers:F298" in shown[first:second]
    assert second < shown.index("pkg.layers:F0<") < shown.index("Verdicts</h2>")
    assert shown.count('<details class="clause broken" open>') == 2


def test_the_page_begins_with_how_many_got_each_verdict_and_links_to_those_that_are_broken():
    shown = page(several(300))
    top = shown[shown.index("<header") : shown.index("<main")]
    assert "2 fail" in top
    assert "298 conform" in top
    assert '<a href="#part-0">' in top
    assert '<a href="#part-1">' in top
    assert "<title>Conformance: 2 fail, 298 conform</title>" in shown


def test_one_subject_needs_no_overview():
    shown = page(broken())
    assert "<nav" not in shown
    assert "<title>mypkg.dist:Gather fails</title>" in shown


def test_many_subjects_that_conform_are_one_folded_line():
    assert '<details class="alike"><summary>' in page(several(300))
    assert '<details class="alike">' not in page(several(4))


def test_the_page_shows_the_code_in_the_text_of_a_clause():
    one = replace(clause("Function.backward.count"), text="``x < y`` on rank *r*, see :func:`torch.vmap`.")
    report = made(outcome(one.id, "fail"), clauses={**CLAUSES, one.id: one})
    assert "<p><code>x &lt; y</code> on rank r, see <code>torch.vmap</code>.</p>" in page(report)


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


def test_what_is_only_told_does_not_stand_among_what_is_broken():
    text = page(with_note(outcome("Function.backward.count", "pass")))
    assert re.search(r"\b1 note\b", text)
    assert 'class="clause broken"' not in text
    assert "another way" in text


def headline(shown):
    return " ".join(re.sub(r"<[^>]+>", " ", shown[shown.index("<h1>") : shown.index("</header>")]).split())


def test_the_headline_of_a_single_subject_is_its_verdict_and_how_many_clauses_failed():
    assert headline(page(broken())).startswith(
        "mypkg.dist:Gather (AllGatherGradAutograd) fails 1 failed of 4, 3 passed"
    )
    assert headline(page(made())).startswith("mypkg.dist:Gather (AllGatherGradAutograd) conforms")


def test_the_page_says_how_the_run_was_started_and_how_long_it_took():
    shown = page(replace(made(), command="conformance run mypkg.dist:Gather", seconds=3.21))
    assert "<dt>command</dt><dd><code>conformance run mypkg.dist:Gather</code></dd>" in shown
    assert "<dt>took</dt><dd>3.2 s</dd>" in shown


def test_a_reader_without_the_site_is_told_a_command():
    assert "<code>conformance explain " in page(broken())
