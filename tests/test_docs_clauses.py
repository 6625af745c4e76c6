"""The Sphinx extension: what it warns of, on small sites of its own, and what it makes of a page."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.site import ROOT

pytest.importorskip("sphinx", reason="building pages needs conf/requirements-docs.txt")
pytest.importorskip("jinja2")
sys.path.insert(0, str(ROOT / "conf"))
from clause_pages import published, record  # noqa: E402

CONF = f"""
import sys
sys.path[:0] = [{str(ROOT / "conf")!r}, {str(ROOT)!r}]
extensions = ["clause_pages"]
"""
KNOWN = "GradFactor.forward.identity"


def build(folder: Path, text: str) -> str:
    """Warnings of a site of one page."""
    (folder / "conf.py").write_text(CONF, encoding="utf-8")
    (folder / "index.rst").write_text(f"Page\n====\n\n{text}\n", encoding="utf-8")
    command = [sys.executable, "-m", "sphinx", "-q", "-n", "-b", "html", str(folder), str(folder / "out")]
    return subprocess.run(command, text=True, capture_output=True).stderr


def clause(identifier: str) -> str:
    return f'.. clause:: {identifier}\n   :level: must\n   :sources: L "grad_y"\n\n   The text.\n\n'


def test_a_clause_that_is_tested_builds_without_a_warning(tmp_path):
    assert build(tmp_path, clause(KNOWN) + f":clause:`{KNOWN}`") == ""
    assert f'id="clause-{KNOWN}"' in (tmp_path / "out" / "index.html").read_text()


def test_the_sources_of_a_clause_are_shown_and_linked(tmp_path):
    sources = 'N T "handed on", X Extending PyTorch, C torch 2.13.0 torch/a.py:1'
    text = f".. clause:: {KNOWN}\n   :level: must\n   :sources: {sources}\n\n   The text.\n"
    assert build(tmp_path, text) == ""
    page = (tmp_path / "out" / "index.html").read_text()
    for shown in ("<q>handed on</q>", "towhee: AllGather", "code: torch 2.13.0 torch/a.py:1"):
        assert shown in page
    for address in ("notes/extending.html", "torch.autograd.function.NestedIOFunction.html"):
        assert f'{address}">' in page


def test_sources_that_cannot_be_read_are_an_error(tmp_path):
    text = f".. clause:: {KNOWN}\n   :level: must\n   :sources: L\n\n   The text.\n"
    assert "'L' is no source" in build(tmp_path, text)


def test_an_id_used_twice_is_a_warning(tmp_path):
    assert "duplicate clause" in build(tmp_path, clause(KNOWN) + clause(KNOWN))


def test_a_dangling_reference_is_a_warning(tmp_path):
    assert "'clause' reference target not found: No.such.clause" in build(tmp_path, ":clause:`No.such.clause`")


def test_a_clause_without_a_test_is_a_warning(tmp_path):
    assert "asserted by no test" in build(tmp_path, clause("GradFactor.forward.untested"))


def test_an_unknown_option_is_an_error(tmp_path):
    assert "unknown option" in build(tmp_path, f".. clause:: {KNOWN}\n   :colour: red\n\n   The text.\n")


CODE = '<code class="docutils literal notranslate"><span class="pre">{}</span></code>'


def test_a_clause_that_prose_names_as_code_is_a_link_to_it():
    named = CODE.format("Function.backward.count")
    linked = published._link_clauses(named, "guides/add", record.read())
    assert 'href="../api/spec_impl/function/index.html#clause-Function.backward.count"' in linked
    assert named in linked


@pytest.mark.parametrize("body", [CODE.format("x.y"), f'<a href="#z">{CODE.format("Function.backward.count")}</a>'])
def test_other_code_and_what_is_a_link_already_stay(body):
    assert published._link_clauses(body, "guides/add", record.read()) == body
