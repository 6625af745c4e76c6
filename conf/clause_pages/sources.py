"""The sources of reference, suite and planted bugs as pages, and the links to them from every signature."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx

from clause_pages.record import ROOT
from clause_pages.template import link


def setup(app: Sphinx) -> None:
    """Write the pages with the others; add the links while pages are read."""
    app.add_config_value("source_pages", [], "html", types=[list])
    app.connect("html-collect-pages", _pages)
    app.connect("doctree-read", _link_signatures)
    app.connect("build-finished", _remove_others)


def _pages(app: Sphinx) -> Iterator[tuple[str, dict[str, Any], str]]:
    times = (Path(app.env.doc2path(name)).stat().st_mtime for name in app.env.toctree_includes)
    sidebar = max(times, default=0.0)  # whose titles are on every page
    for path in sorted(path for pattern in app.config.source_pages for path in ROOT.glob(pattern)):
        name = path.relative_to(ROOT).as_posix()
        target = Path(app.outdir) / "source" / f"{name}.html"
        if target.exists() and target.stat().st_mtime > max(sidebar, path.stat().st_mtime):
            continue
        code = app.builder.highlighter.highlight_block(  # type: ignore[attr-defined]
            path.read_text("utf-8"), "python", lineanchors="L", force=True
        )
        code = re.sub(r'<a id="(L-\d+)"[^>]*></a>', r'<span id="\1"></span>', code)  # places, not links
        yield f"source/{name}", {"title": name, "body": f"<h1>{name}</h1>{code}"}, "page.html"


def _remove_others(app: Sphinx, error: Exception | None) -> None:
    """Remove pages that an earlier build wrote and that have no source any more: their links lead nowhere.

    Those of operators are a site of its own within this one.
    """
    if error or app.builder.format != "html":
        return
    out = Path(app.outdir)
    for page in out.rglob("*.html"):
        name = page.relative_to(out).as_posix().removesuffix(".html")
        made = name in {*app.env.found_docs, "search", "genindex", "py-modindex"} or name.startswith(
            ("_static/", "operator/")
        )
        if not made and not (name.startswith("source/") and (ROOT / name.removeprefix("source/")).exists()):
            page.unlink()


@cache
def lines_of(path: Path) -> dict[str, int]:
    """The line of every class and function of a module, by its qualified name."""
    found: dict[str, int] = {}

    def walk(node: ast.AST, prefix: str) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                found[prefix + child.name] = child.lineno
                walk(child, f"{prefix}{child.name}.")

    walk(ast.parse(path.read_text("utf-8")), "")
    return found


def _link_signatures(app: Sphinx, doctree: nodes.document) -> None:
    if app.builder.format != "html":
        return
    for signature in doctree.findall(addnodes.desc_signature):
        module, name = signature.get("module"), signature.get("fullname")
        place = _place(module, name) if module and name else None
        if place:
            uri = link(app.env.current_document.docname, f"source/{place[0]}.html#L-{place[1]}")
            inside = nodes.inline("", "[source]", classes=["viewcode-link"])
            signature.append(nodes.reference("", "", inside, internal=True, refuri=uri, classes=["source-link"]))


def _place(module: str, name: str) -> tuple[str, int] | None:
    """File and line of an object; what a package hands on is looked for in its modules."""
    path = ROOT / f"{module.replace('.', '/')}.py"
    candidates = [path] if path.exists() else sorted((ROOT / module.replace(".", "/")).glob("*.py"))
    for candidate in candidates:
        line = lines_of(candidate).get(name)
        if line:
            return candidate.relative_to(ROOT).as_posix(), line
    return None
