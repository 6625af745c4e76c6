"""``.. cli-options::`` and ``.. report-schema::``: references made from the code, so that they cannot drift from it."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from clause_pages.record import ROOT
from clause_pages.suite import cli, errors
from clause_pages.template import render

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
        self.env.note_dependency(cli.__file__)
        (commands,) = (action for action in cli.parser()._actions if isinstance(action, argparse._SubParsersAction))
        helps = {choice.dest: choice.help for choice in commands._choices_actions}
        return [self._section(name, helps[name] or "", parser) for name, parser in commands.choices.items()]

    def _section(self, name: str, text: str, parser: argparse.ArgumentParser) -> nodes.section:
        title = nodes.title("", "", nodes.literal("", f"conformance {name}"))
        section = nodes.section("", title, ids=[f"conformance-{name}"])
        section += nodes.paragraph("", f"{text[:1].upper()}{text[1:]}.")
        parser.formatter_class = lambda prog: argparse.HelpFormatter(prog, width=80)
        usage = " ".join(parser.format_usage().removeprefix("usage: ").split())
        options = [
            (_names(action), (action.help or "") % {"default": action.default, "prog": "conformance"})
            for action in parser._actions
            if not isinstance(action, argparse._HelpAction)
        ]
        section += render("options.html", self.env.docname, name=name, usage=usage, options=options)
        if parser.epilog:
            section += nodes.paragraph("", parser.epilog)
        return section


def _names(action: argparse.Action) -> str:
    value = action.metavar or (f"{{{','.join(map(str, action.choices))}}}" if action.choices else action.dest)
    if not action.option_strings:
        return f"[{value} ...]" if action.nargs == "*" else str(value)
    return ", ".join(action.option_strings) + ("" if action.nargs == 0 else f" {value}")


class ExitStatus(SphinxDirective):
    """Called once: what the number says with which a run ends."""

    def run(self) -> list[nodes.Node]:
        """Make the table."""
        return [render("exit-status.html", self.env.docname, statuses=STATUS)]


class Schema(SphinxDirective):
    """Called once: the report's JSON Schema as tables."""

    def run(self) -> list[nodes.Node]:
        """Make a table for the report and one for each kind of thing in it."""
        self.env.note_dependency(str(SCHEMA))
        schema = json.loads(SCHEMA.read_text("utf-8"))
        kinds = {"report": schema} | {name: part for name, part in schema["$defs"].items() if "properties" in part}
        return [self._kind(name, part) for name, part in kinds.items()]

    def _kind(self, name: str, part: Mapping[str, Any]) -> nodes.section:
        section = nodes.section("", nodes.title("", name), ids=[f"schema-{name}"])
        section += render("schema.html", self.env.docname, name=name, keys=list(_keys(part, "")))
        return section


def _keys(part: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Mapping[str, Any], bool]]:
    """The keys of an object and of the objects in it, each with its schema and whether it must be there."""
    for key, value in part["properties"].items():
        yield prefix + key, value, key in part.get("required", ())
        if "properties" in value:
            yield from _keys(value, f"{prefix}{key}.")
