"""``.. cli-options::`` and ``.. report-schema::``: references made from the code, so that they cannot drift from it."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from clause_pages.html import Markup, raw, tag, together
from clause_pages.index import scrolling
from clause_pages.record import ROOT
from conformance.cli import parser
from conformance.core import errors

SCHEMA = ROOT / "conformance" / "report" / "schema.json"
STATUS = (
    (errors.OK, "every subject conforms or deviates"),
    (errors.FAILS, "a subject fails or is incomplete; with --strict also: deviates"),
    (errors.INTERRUPTED, "interrupted"),
    (errors.BROKE, "the suite itself broke"),
    (errors.BAD_USAGE, "bad usage: a line says what was wrong and what would be right"),
)


def setup(app: Sphinx) -> None:
    """Add the directives."""
    app.add_directive("cli-options", Options)
    app.add_directive("exit-status", ExitStatus)
    app.add_directive("report-schema", Schema)


class Options(SphinxDirective):
    """Called once: a section for every command."""

    def run(self) -> list[nodes.Node]:
        """Ask the parser itself."""
        self.env.note_dependency(parser.__file__)
        (commands,) = (action for action in parser.parser()._actions if isinstance(action, argparse._SubParsersAction))
        helps = {choice.dest: choice.help for choice in commands._choices_actions}
        return [_section(name, helps[name] or "", parser) for name, parser in commands.choices.items()]


def _section(name: str, text: str, parser: argparse.ArgumentParser) -> nodes.section:
    section = nodes.section(
        "", nodes.title("", "", nodes.literal("", f"conformance {name}")), ids=[f"conformance-{name}"]
    )
    section += nodes.paragraph("", f"{text[:1].upper()}{text[1:]}.")
    parser.formatter_class = lambda prog: argparse.HelpFormatter(prog, width=80)
    usage = " ".join(parser.format_usage().removeprefix("usage: ").split())
    section += raw(tag("pre", usage, tabindex="0", class_="usage"))
    rows = [
        tag("tr", tag("th", tag("code", _names(action)), scope="row"), tag("td", (action.help or "") % _words(action)))
        for action in parser._actions
        if not isinstance(action, argparse._HelpAction)
    ]
    if rows:
        section += raw(scrolling(tag("table", tag("tbody", *rows)), f"options of conformance {name}"))
    if parser.epilog:
        section += nodes.paragraph("", parser.epilog)
    return section


def _words(action: argparse.Action) -> dict[str, Any]:
    return {"default": action.default, "prog": "conformance"}


def _names(action: argparse.Action) -> str:
    value = action.metavar or (f"{{{','.join(map(str, action.choices))}}}" if action.choices else action.dest)
    if not action.option_strings:
        return f"[{value} ...]" if action.nargs == "*" else str(value)
    return ", ".join(action.option_strings) + ("" if action.nargs == 0 else f" {value}")


class ExitStatus(SphinxDirective):
    """Called once: what the number says with which a run ends."""

    def run(self) -> list[nodes.Node]:
        """Make the table."""
        rows = [tag("tr", tag("th", str(number), scope="row"), tag("td", words)) for number, words in STATUS]
        return [raw(scrolling(tag("table", tag("tbody", *rows)), "exit status"))]


class Schema(SphinxDirective):
    """Called once: the report's JSON Schema as tables."""

    def run(self) -> list[nodes.Node]:
        """Make a table for the report and one for each kind of thing in it."""
        self.env.note_dependency(str(SCHEMA))
        schema = json.loads(SCHEMA.read_text("utf-8"))
        found = [_kind("report", schema)]
        found += [_kind(name, part) for name, part in schema["$defs"].items() if "properties" in part]
        return found


def _kind(name: str, part: Mapping[str, Any]) -> nodes.section:
    section = nodes.section("", nodes.title("", name), ids=[f"schema-{name}"])
    head = tag("thead", tag("tr", *(tag("th", word, scope="col") for word in ("Key", "Value", "What it is"))))
    rows = list(_rows(part, ""))
    section += raw(scrolling(tag("table", head, tag("tbody", *rows)), f"keys of {name}"))
    return section


def _rows(part: Mapping[str, Any], prefix: str) -> Iterator[Markup]:
    for key, value in part["properties"].items():
        needed = "" if key in part.get("required", ()) else " (may be missing)"
        yield tag(
            "tr",
            tag("th", tag("code", prefix + key), scope="row"),
            tag("td", _type(value), needed),
            tag("td", value.get("description", "")),
        )
        if "properties" in value:
            yield from _rows(value, f"{prefix}{key}.")


def _type(value: Mapping[str, Any]) -> Markup:
    if "$ref" in value:
        name = value["$ref"].rpartition("/")[2]
        return tag("code", "outcome") if name == "outcome" else tag("a", name, href=f"#schema-{name}")
    if "enum" in value or "const" in value:
        return together(
            *(together(tag("code", json.dumps(one)), " ") for one in value.get("enum", [value.get("const")]))
        )
    if value.get("type") == "array":
        return together("list of ", _type(value["items"]))
    kinds = value.get("type", "anything")
    return Markup(" or ".join(kinds) if isinstance(kinds, list) else kinds)
