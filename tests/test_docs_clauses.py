"""The Sphinx extension: what it warns of, on small sites of its own, and what it makes of a page."""

from __future__ import annotations

import html
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

import pytest

from conformance.core import clauses
from tests.site import ROOT

pytest.importorskip("sphinx", reason="building pages needs conf/requirements-docs.txt")
pytest.importorskip("jinja2")
sys.path.insert(0, str(ROOT / "conf"))
from clause_pages import exports, locations, published, record, scanned

CONF = f"""
import sys
sys.path[:0] = [{str(ROOT / "conf")!r}, {str(ROOT)!r}]
extensions = ["clause_pages"]
"""
KNOWN = "GradFactor.forward.identity"


@pytest.fixture
def site_sources(tmp_path, monkeypatch) -> tuple[Path, int, str]:
    """A line of a page as autoapi makes it, and where it was written."""
    monkeypatch.setattr(locations, "GENERATED", str(tmp_path))
    source = ROOT / "spec_impl" / "torchlogix" / "__init__.py"
    lines = source.read_text(encoding="utf-8").splitlines()
    number = next(number for number, line in enumerate(lines, 1) if ".. clause:: GradFactor.backward.scaled" in line)
    page = tmp_path / "spec_impl" / "torchlogix" / "index.rst"
    page.parent.mkdir(parents=True)
    page.write_text(f"Title\n=====\n\n   {lines[number - 1].strip()}\n      :level: must\n", encoding="utf-8")
    return page, 5, f"spec_impl/torchlogix/__init__.py:{number}"


def build(folder: Path, pages: Mapping[str, str], first: Path | None = None) -> str:
    """Warnings of a site of these pages; ``first`` is looked at before the checkout for what is imported."""
    before = f"sys.path.insert(0, {str(first)!r})\n" if first else ""
    (folder / "conf.py").write_text(CONF.replace("extensions", before + "extensions", 1), encoding="utf-8")
    listed = "".join(f"   {name}\n" for name in pages)
    (folder / "index.rst").write_text(f"Site\n====\n\n.. toctree::\n\n{listed}", encoding="utf-8")
    for name, text in pages.items():
        (folder / f"{name}.rst").write_text(f"Page\n====\n\n{text}\n", encoding="utf-8")
    command = [sys.executable, "-m", "sphinx", "-q", "-n", "-N", "-b", "html", str(folder), str(folder / "out")]
    return subprocess.run(command, text=True, capture_output=True).stderr


def clause(identifier: str) -> str:
    return f'.. clause:: {identifier}\n   :level: must\n   :sources: L "grad_y"\n\n   The text.\n\n'


def with_sources() -> list[clauses.Clause]:
    """A clause with a document's words or a page of PyTorch, and one with a line of upstream's code."""
    known = clauses.registry()
    return [
        next(one for one in known.values() if one.id != KNOWN and any(map(has, one.sources)))
        for has in (
            lambda source: source.kind in "MNT" and source.words and source.url,
            lambda source: source.kind == "C",
        )
    ]


#: Pages that nothing is wrong with, and pages with what is to be found: one site of each kind, for a build takes long.
RIGHT = {
    "text": "Text.",
    "known": clause(KNOWN) + f":clause:`{KNOWN}`",
    "figure": "There are :figure:`clauses` clauses.",
    "judged": ".. scanned::",
}
WRONG = {
    "twice": clause(KNOWN) + clause(KNOWN),
    "dangling": ":clause:`No.such.clause`",
    "untested": clause("GradFactor.forward.untested"),
    "option": ".. clause:: GradFactor.backward.scaled\n   :colour: red\n\n   The text.\n",
    "planets": ":figure:`planets`",
}


@pytest.fixture(scope="module")
def right(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site of what is right, in a folder in which an earlier build left pages that are no more."""
    folder = tmp_path_factory.mktemp("right")
    for name in LEFT:
        path = folder / "out" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("<a href='nowhere.html'>", encoding="utf-8")
    sourced = {f"sourced{at}": clause(identifier) for at, identifier in enumerate({one.id for one in with_sources()})}
    assert build(folder, RIGHT | sourced) == ""
    return folder / "out"


@pytest.fixture(scope="module")
def warnings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The warnings of each page of what is wrong."""
    folder = tmp_path_factory.mktemp("wrong")
    before, *said = re.split(rf"^{re.escape(str(folder))}/(\w+)\.rst", build(folder, WRONG), flags=re.MULTILINE)
    assert before == ""
    found: dict[str, str] = defaultdict(str)
    for name, text in zip(said[::2], said[1::2], strict=True):
        found[name] += text
    return found


LEFT = ("gone.html", "source/gone.py.html")


def test_a_page_that_is_gone_is_gone_from_the_site_too(right):
    assert [name for name in LEFT if (right / name).exists()] == []
    assert (right / "search.html").exists()


def test_a_clause_that_is_tested_builds_without_a_warning(right):
    assert f'id="clause-{KNOWN}"' in (right / "known.html").read_text()


def test_the_sources_of_a_clause_are_shown_and_linked(right):
    """They are those that the reference gives: a document's words, a page of PyTorch, a line of upstream."""
    pages = [html.unescape(page.read_text()) for page in right.glob("sourced*.html")]
    for found in with_sources():
        (page,) = (page for page in pages if f'id="clause-{found.id}"' in page)
        for source in found.sources:
            assert source.title in page
            assert not source.words or f"<q>{source.words}</q>" in page
            assert not source.url or f'{source.url}"' in page


def test_an_id_used_twice_is_a_warning(warnings):
    assert "duplicate clause" in warnings["twice"]


def test_a_dangling_reference_is_a_warning(warnings):
    assert "'clause' reference target not found: No.such.clause" in warnings["dangling"]


def test_a_clause_without_a_test_is_a_warning(warnings):
    assert "asserted by no test" in warnings["untested"]


def test_an_unknown_option_is_an_error(warnings):
    assert "unknown option" in warnings["option"]


def test_a_figure_that_nothing_knows_is_a_warning(warnings):
    assert "no figure 'planets'" in warnings["planets"]


def test_a_figure_is_taken_from_the_data(right):
    text = (right / "figure.html").read_text(encoding="utf-8")
    assert f"There are {len(record.read().registry)} clauses." in text


SAMPLE = {
    "packages": {"a": {"set": "seen", "functions": 2, "files": 3}, "b": {"set": "later", "functions": 1, "files": 4}},
    "sample": [
        {"package": "a", "set": "seen", "clause": KNOWN, "confidence": "certain", "verdict": "true"},
        {"package": "a", "set": "seen", "clause": KNOWN, "confidence": "certain", "verdict": "false"},
        {"package": "b", "set": "later", "clause": KNOWN, "confidence": "likely", "verdict": "true"},
        {"package": "b", "set": "later", "clause": KNOWN, "confidence": "possible", "verdict": "meant"},
    ],
}


def test_what_the_scan_was_found_to_say_is_counted_from_its_sample():
    assert scanned.scan_figures(SAMPLE) == {
        "scan-packages": 2,
        "scan-functions": 3,
        "scan-files": 7,
        "scan-seen": 1,
        "scan-held-out": 0,
        "scan-later": 1,
        "scan-sure": 3,
        "scan-sure-true": 2,
        "scan-sure-later": 1,
        "scan-sure-later-true": 1,
        "scan-most-of-one-package": 2,
    }
    assert [(rule.sure, *rule.said) for rule in scanned._rules(SAMPLE["sample"])] == [
        ("certain", "1 of 2 true", "", ""),
        ("likely", "", "", "1 of 1 true"),
        ("possible", "", "", "0 of 1 true, 1 meant"),
    ]


def test_the_table_of_judged_findings_is_on_the_page_that_asks_for_it(right):
    page = (right / "judged.html").read_text(encoding="utf-8")
    rules = {(finding["clause"], finding["confidence"]) for finding in record.read().scanned["sample"]}
    assert page.count('<th scope="row">') == len(rules)


def test_a_warning_names_the_docstring_and_not_the_page_made_of_it(site_sources):
    page, line, source = site_sources
    assert locations.source_of(f"{page}:{line}") == source


def test_a_broken_clause_ends_the_build_with_its_place_alone(tmp_path):
    (tmp_path / "spec_impl").mkdir()
    (tmp_path / "spec_impl" / "__init__.py").write_text('"""Nothing."""\n', encoding="utf-8")
    broken = 'SPEC = "F"\nclass F:\n    """X.\n\n    .. clause:: F.x.y\n       :level: perhaps\n\n       Z.\n    """\n'
    (tmp_path / "spec_impl" / "f.py").write_text(broken, encoding="utf-8")
    said = build(tmp_path, {}, first=tmp_path)
    assert "f.py:5: clause F.x.y: level 'perhaps' is none of must" in said
    assert "open an issue" not in said
    assert "Traceback" not in said


CODE = '<code class="docutils literal notranslate"><span class="pre">{}</span></code>'


def test_a_clause_that_prose_names_as_code_is_a_link_to_it():
    named = CODE.format("Function.backward.count")
    linked = exports._link_clauses(named, "guides/add", record.read())
    assert 'href="../api/spec_impl/function_backward/index.html#clause-Function.backward.count"' in linked
    assert named in linked


@pytest.mark.parametrize("body", [CODE.format("x.y"), f'<a href="#z">{CODE.format("Function.backward.count")}</a>'])
def test_other_code_and_what_is_a_link_already_stay(body):
    assert exports._link_clauses(body, "guides/add", record.read()) == body


def test_a_may_that_a_published_class_does_not_keep_is_a_note_and_counts_nowhere():
    findings = [published.Finding(None, "X.y", level, "fail", "") for level in ("must", "should", "quality", "may")]
    one = published.Class("F", "1.0", "Function", "fails", 3, 0, findings, (), "f")
    assert (one.must, one.lesser) == (1, 2)
    assert [found.weight for found in findings] == ["must", "lesser", "lesser", "note"]
