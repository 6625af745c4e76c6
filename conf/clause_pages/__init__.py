"""The one Sphinx extension of this site: it puts clauses, and what was proved of them, on pages.

``directive`` and ``margin`` make the box of a clause; ``accelerators``, ``index``, ``results``, ``published``,
``releases``, ``runs``, ``peers``, ``proof``, ``reference``, ``scanned``, ``figures`` and ``pictures`` are directives
and roles of pages; ``members`` and ``sources`` complete the API pages; ``exports`` writes what programs read;
``locations`` makes warnings name the source.
"""

from __future__ import annotations

import os
import re
import shutil
from collections import defaultdict
from hashlib import sha256
from pathlib import Path
from typing import Any

import jinja2
from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util.nodes import make_refnode

from clause_pages import (
    accelerators,
    directive,
    exports,
    figures,
    index,
    locations,
    margin,
    mathml,
    members,
    peers,
    pictures,
    proof,
    published,
    record,
    reference,
    releases,
    results,
    runs,
    scanned,
    sources,
    template,
)
from clause_pages.suite import ClauseError, SuiteError, page_of

#: The types of a collective, such as ``V, R -> V``, with quotation marks or without.
TYPES = re.compile(r'"?[RIVP](, [RIVP])* -> [RIVP](, [RIVP])*"?')
#: Names that annotations use and that no page documents.
UNDOCUMENTED = {
    "Body",
    "Call",
    "Exchange",
    "Form",
    "Formula",
    "GROUP",
    "GradientKind",
    "Gradients",
    "Inputs",
    "Judgement",
    "Moves",
    "Params",
    "Ranks",
    "Report",
    "Sample",
    "Specification",
    "Target",
    "UsageError",
    "Variation",
    "_Call",
    "_Result",
}


def setup(app: Sphinx) -> dict[str, Any]:
    """Called by Sphinx when the site is configured."""
    for part in (
        accelerators, directive, exports, figures, index, locations, mathml, peers, pictures, proof, published,
        reference, releases, results, runs, scanned, sources,
    ):  # fmt: skip
        part.setup(app)
    app.add_config_value("clause_files", [], "env")
    app.connect("config-inited", _read_record)
    app.connect("builder-inited", _forget_pages, priority=100)
    app.connect("builder-inited", _keep_times, priority=900)
    app.setup_extension("sphinx.ext.napoleon")  # the form of our docstrings
    if "autoapi.extension" in app.extensions:
        app.connect("autoapi-skip-member", _skip)
    app.connect("autodoc-process-docstring", _tidy, priority=100)
    app.connect("doctree-read", _mark_types)
    app.connect("env-get-outdated", _with_other_facts)
    app.connect("missing-reference", _resolve, priority=400)
    app.config.autoapi_prepare_jinja_env = lambda environment: _prepare(environment, app)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}


def _mark_types(app: Sphinx, document: nodes.document) -> None:
    """Mark the types of collectives, for a style of their own."""
    for code in document.findall(nodes.literal):
        if TYPES.fullmatch(code.astext()):
            code["classes"].append("types")


def _read_record(app: Sphinx, config: Any) -> None:
    """Read what is known of the clauses. Exit on a mistake: for an exception Sphinx asks to open an issue with it."""
    try:
        found = app.clause_record = record.read()  # type: ignore[attr-defined]
    except (ClauseError, SuiteError, ValueError) as error:
        raise SystemExit(f"{error}\nthe site was not built") from None
    # A data file that comes or goes concerns every page, and so does a change of this extension.
    parts = [*Path(__file__).parent.glob("*.py"), *template.FOLDER.glob("*.html"), *members.CONF.glob("*.toml")]
    parts += record.ROOT.glob("spec_impl/*/page.toml")
    own = b"".join(path.read_bytes() for path in sorted(parts))
    config.clause_files = [sha256(own).hexdigest(), *(path.name for path in (*found.data, *found.reports))]


def _forget_pages(app: Sphinx) -> None:
    """Remove the pages that autoapi wrote of what is gone or was made in another way; it will write them again."""
    pages = record.DOCS / "api"
    parts = [path for end in ("rst", "toml", "py") for path in members.CONF.rglob(f"*.{end}")]
    parts += record.ROOT.glob("spec_impl/*/page.toml")
    made_of = [(path.name, path.read_text("utf-8")) for path in sorted(parts)]
    # Another site, such as a test's, has no say over these pages.
    own = Path(app.srcdir) == record.DOCS
    if own and getattr(app.env, "clause_pages_made_of", None) != made_of:
        shutil.rmtree(pages, ignore_errors=True)
    for page in pages.rglob("index.rst") if own else ():
        module = record.ROOT / page.parent.relative_to(pages)
        if not module.is_dir() and not module.with_suffix(".py").exists():
            shutil.rmtree(page.parent)
    if not pages.is_dir():
        app.env.autoapi_source_hashes = None  # type: ignore[attr-defined]
    app.env.clause_pages_made_of = made_of  # type: ignore[attr-defined]
    found = [(page, page.read_bytes(), page.stat()) for page in pages.rglob("*.rst")]
    app.clause_pages_before = found  # type: ignore[attr-defined]


def _keep_times(app: Sphinx) -> None:
    """Give pages that autoapi wrote again, word for word, their old time: Sphinx need not read them again."""
    for page, content, before in app.clause_pages_before:  # type: ignore[attr-defined]
        if page.exists() and page.read_bytes() == content:
            os.utime(page, ns=(before.st_atime_ns, before.st_mtime_ns))


def _with_other_facts(app: Sphinx, env: BuildEnvironment, *_: set[str]) -> list[str]:
    """Called before pages are read: those whose clauses have got other tests, bugs or verdicts."""
    facts: dict[str, list[str]] = defaultdict(list)
    for clause in app.clause_record.registry.values():  # type: ignore[attr-defined]
        found = repr((clause.id, margin.facts(app.clause_record, clause.id)))  # type: ignore[attr-defined]
        for page in (page_of(clause).partition(".html")[0], "specification", "proof"):
            facts[page].append(found)
    digests = {page: sha256("".join(found).encode()).hexdigest() for page, found in facts.items()}
    before = getattr(env, "clause_pages_facts", {})
    env.clause_pages_facts = digests  # type: ignore[attr-defined]
    return [page for page in digests if page in env.found_docs and digests[page] != before.get(page)]


def _prepare(environment: jinja2.Environment, app: Sphinx) -> None:
    environment.globals["facts_of"] = lambda name: members.classes().get(name, {})
    environment.globals["contract"] = members.contract
    environment.filters["names"] = members.names
    environment.filters["summary"] = members.summary
    environment.globals["main_modules"] = lambda: {
        clause.module.rpartition(".")[2]
        for clause in app.clause_record.registry.values()  # type: ignore[attr-defined]
    }
    environment.globals["inherited"] = lambda own: members.inherited(set(own), app.config)


def _skip(app: Sphinx, what: str, name: str, obj: Any, skip: bool, options: Any) -> bool | None:
    """Leave out constants, attributes that have their text in a table, and second places of names of the kit."""
    if what == "data" or (obj.imported and name.startswith("conformance.kit.")):  # each is described in its home
        return True
    if what == "method" and name.endswith(".__init__") and obj.docstring and not obj.inherited:
        return False  # it may have clauses
    if what == "attribute" and name.startswith("spec_impl.function."):
        return True
    return None


def _tidy(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Called for every docstring before napoleon reads it."""
    if name == "spec_impl.function.Function":
        members.without_attributes(lines)
    members.name_returns(lines)
    if what == "property":
        lines[:0] = ["..", ""]  # an empty comment; else napoleon takes the words before a colon for a type


def _resolve(
    app: Sphinx, env: BuildEnvironment, node: addnodes.pending_xref, content: nodes.TextElement
) -> nodes.Node | None:
    """Called for a name that was not found where it stands: look for it in all modules."""
    target = node.get("reftarget", "")
    if node.get("refdomain") != "py":
        return None
    last = target.rpartition(".")[2]
    if last in UNDOCUMENTED:
        return content
    ending = f".{last}" if target == f"conformance.{last}" else f".{target}"  # the package hands on its modules' names
    found = {name: entry for name, entry in env.domains.python_domain.objects.items() if name.endswith(ending)}
    if len(found) != 1:
        return None
    ((name, entry),) = found.items()
    return make_refnode(app.builder, node["refdoc"], entry.docname, entry.node_id, content, name)
