"""Publish files for programs: ``clauses.json``, the report's schema, the data, and the index of the search."""

from __future__ import annotations

import json
import re
import shutil
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

from clause_pages import members
from clause_pages.record import DOCS, Record
from clause_pages.reference import SCHEMA
from clause_pages.suite import as_data, clauses, page_of
from clause_pages.template import breakable, link, plain

#: Words that readers search for, and words of clauses and pages that mean the same.
SYNONYMS = Path(__file__).parents[1] / "synonyms.toml"
FILTERS = 'class="filters"'
FOCUSABLE = 'tabindex="0" role="group" aria-label="table"'


def setup(app: Sphinx) -> None:
    """Write when all pages are written."""
    app.connect("build-finished", _publish)
    app.connect("html-page-context", _scripts)
    app.connect("html-page-context", _for_keyboard_and_reader, priority=900)


def _scripts(app: Sphinx, pagename: str, template: str, context: dict[str, object], doctree: object) -> None:
    if pagename == "search":
        app.add_js_file("clause-search-data.js")
        app.add_js_file("site.js")
    elif FILTERS in str(context.get("body", "")):
        app.add_js_file("site.js")


def _for_keyboard_and_reader(
    app: Sphinx, pagename: str, template: str, context: dict[str, Any], doctree: object
) -> None:
    """Mend what writer and theme leave out: code and tables that scroll can be focused, captions have a level."""
    if "body" in context:
        body = _link_clauses(context["body"], pagename, app.clause_record)  # type: ignore[attr-defined]
        body = re.sub(r'(<code [^>]*><span class="pre">)([\w.:-]+)(?=</span></code>)', _break, body)
        body = re.sub(r"(</(?:strong|em|a)>\)?) -- ", r"\1: ", body)  # Sphinx's own way to begin a field
        body = body.replace('<div class="table-wrapper', f'<div {FOCUSABLE} class="table-wrapper')
        context["body"] = body.replace("<pre>", '<pre tabindex="0">')
    tree = context.get("furo_navigation_tree", "")
    context["furo_navigation_tree"] = tree.replace('role="heading"', 'role="heading" aria-level="2"')


def _link_clauses(body: str, pagename: str, record: Record) -> str:
    """Make a link of every clause that prose names as code."""

    def linked(found: re.Match[str]) -> str:
        clause = record.registry.get(found[2])
        if found[1] or not clause:  # a link already, or something else
            return found[0]
        return f'<a class="reference internal" href="{link(pagename, page_of(clause))}">{found[0]}</a>'

    return re.sub(
        r'(<a [^>]*>)?<code class="docutils literal notranslate"><span class="pre">(.+?)</span></code>', linked, body
    )


def _break(found: re.Match[str]) -> str:
    return found[1] + str(breakable(found[2]))


def _publish(app: Sphinx, error: Exception | None) -> None:
    if error or app.builder.format != "html":
        return
    record: Record = app.clause_record  # type: ignore[attr-defined]
    out = Path(app.outdir)
    registry = {
        "version": app.config.release,
        "clauses_sha256": clauses.digest(),
        "clauses": [{**as_data(clause), "page": page_of(clause)} for clause in record.registry.values()],
    }
    _write(out / "clauses.json", json.dumps(registry, indent=1, ensure_ascii=False) + "\n")
    # A script rather than JSON, so that the search works on a disk, too.
    rows = [[clause.id, plain(clause.text), page_of(clause)] for clause in record.registry.values()]
    known = tomllib.loads(SYNONYMS.read_text("utf-8"))
    data = {"CLAUSES": rows, "PAGES": [*_members(), *known["PAGES"]], "SYNONYMS": known["SYNONYMS"]}
    lines = [f"window.{name} = {json.dumps(value, ensure_ascii=False)};\n" for name, value in data.items()]
    _write(out / "_static" / "clause-search-data.js", "".join(lines))
    shutil.copyfile(SCHEMA, out / "report.schema.json")
    for path in {*record.data, *record.reports, *(DOCS / "data").glob("published-*.json")}:
        target = out / path.relative_to(DOCS)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)


def _members() -> Iterator[tuple[str, str, str]]:
    """Each member of a Function, and where the contract says what it does."""
    for name, member in members.contract().items():
        home = member.home or f"spec_impl.function.Function.{name}"
        module = home.split(".")[1]
        yield name.lower(), f"api/spec_impl/{module}/index.html#{home}", f"Function.{name}"


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
