"""What the site uses of the suite, imported in this one place."""

from __future__ import annotations

from conformance import catalogue, clauses, cli
from conformance.catalogue import SuiteError, Test
from conformance.clauses import LEVELS, PARTIES, Clause, ClauseError
from conformance.listing import SOURCES, as_data
from conformance.report.badge import badge_of
from conformance.report.model import BROKEN, SUBJECT_VERDICTS, VERDICTS, page_of

__all__ = [
    "BROKEN",
    "LEVELS",
    "PARTIES",
    "SOURCES",
    "SUBJECT_VERDICTS",
    "VERDICTS",
    "Clause",
    "ClauseError",
    "SuiteError",
    "Test",
    "as_data",
    "badge_of",
    "catalogue",
    "clauses",
    "cli",
    "page_of",
]
