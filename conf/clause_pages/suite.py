"""The names that the site uses of the suite, imported in this one place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from conformance.cli import parser as cli
from conformance.cli.listing import as_data
from conformance.core import catalog, clauses, errors
from conformance.core.catalog import SuiteError, SuiteTest
from conformance.core.clauses import LEVELS, PARTIES, Clause, ClauseError
from conformance.core.deciders import deciders
from conformance.core.homes import facts_in, ours
from conformance.core.outcomes import BROKEN
from conformance.core.sources import Source, by_words
from conformance.report.badge import badge_of
from conformance.report.model import SUBJECT_VERDICTS, VERDICTS, page_of


def pages_of_specs() -> dict[str, Mapping[str, Any]]:
    """What the ``page.toml`` of each specification that is a folder says, by the name of the spec."""
    return {name: facts_in(home.folder, name) for name, home in ours().items()}


__all__ = [
    "BROKEN",
    "LEVELS",
    "PARTIES",
    "SUBJECT_VERDICTS",
    "VERDICTS",
    "Clause",
    "ClauseError",
    "Source",
    "SuiteError",
    "SuiteTest",
    "as_data",
    "badge_of",
    "by_words",
    "catalog",
    "clauses",
    "cli",
    "deciders",
    "errors",
    "page_of",
    "pages_of_specs",
]
