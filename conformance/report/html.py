"""Make report.html: one file that needs no server, loads nothing, and escapes what it quotes.

Its one script adds buttons that copy commands; the policy at its head lets no other run.
"""

from __future__ import annotations

import base64
import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import groupby
from typing import TYPE_CHECKING

from conformance.core.output import visible
from conformance.core.prose import with_code
from conformance.report.consequences import cannot_be_judged, consequences_of, in_order
from conformance.report.failures import failures, how_it_ended, last_words, story
from conformance.report.model import LEVELS, SUBJECT_VERDICTS, ClauseResult, Report, SubjectResult
from conformance.report.text import address

if TYPE_CHECKING:
    from jinja2 import Template

_MESSAGE = 8_000  # characters of one message; report.json has more
_FEW = 5  # subjects of one verdict that have a line each, and results that the title names
#: The groups of clauses that are folded below the broken ones, with the words for them.
_FOLDED = {"skipped": "skipped", "pass": "passed", "not-applicable": "not applicable"}


@dataclass(frozen=True)
class Section:
    """A subject, or the engine, as the page shows it: what is broken first."""

    part: SubjectResult
    number: int

    @property
    def name(self) -> str:
        """Return the name of the subject; the engine has none of its own."""
        return self.part.subject or "PyTorch itself"

    @property
    def broken(self) -> list[ClauseResult]:
        """Return the clauses that count against it, cause and must first."""
        return in_order(clause for clause in self.part.clauses if clause.affects_verdict)

    @property
    def told(self) -> list[ClauseResult]:
        """Return the notes: clauses of level may that do not hold."""
        return [clause for clause in self.part.clauses if clause.is_note]

    @property
    def expected(self) -> list[ClauseResult]:
        """Return the broken clauses that were expected."""
        return in_order(clause for clause in self.part.clauses if clause.broken and clause.expected)

    @property
    def folded(self) -> list[tuple[str, list[ClauseResult]]]:
        """Return all other clauses by verdict; no group is empty."""
        groups = [
            (words, [clause for clause in self.part.clauses if clause.verdict == verdict and clause.was_selected])
            for verdict, words in _FOLDED.items()
        ]
        groups.append(("not selected", [clause for clause in self.part.clauses if not clause.was_selected]))
        return [group for group in groups if group[1]]

    @property
    def kept(self) -> list[tuple[str, str]]:
        """Return, for each level, how many of the selected clauses that apply were kept."""
        asked = [clause for clause in self.part.clauses if clause.was_selected and clause.verdict != "not-applicable"]
        every = Counter(clause.level for clause in asked)
        kept = Counter(clause.level for clause in asked if clause.verdict == "pass")
        return [(level, f"{kept[level]}/{every[level]}" if every[level] else "") for level in LEVELS]

    @property
    def asked(self) -> int:
        """Return how many selected clauses apply."""
        return sum(clause.was_selected and clause.verdict != "not-applicable" for clause in self.part.clauses)

    @property
    def summary(self) -> str:
        """Say in one line what was found."""
        counts = Counter(clause.verdict for clause in self.part.clauses)
        found = [
            (len(self.broken), f"failed of {self.asked}"),
            (len(self.expected), "broken as expected"),
            (len(self.told), "note" if len(self.told) == 1 else "notes"),
            (counts["consequence"], "not judged because of that"),
            (sum(clause.verdict == "skipped" and clause.was_selected for clause in self.part.clauses), "skipped"),
            (counts["pass"], "passed"),
            (counts["not-applicable"], "not applicable"),
            (sum(not clause.was_selected for clause in self.part.clauses), "not selected"),
        ]
        return cannot_be_judged(self.part.clauses) or ", ".join(f"{count} {words}" for count, words in found if count)

    def consequences(self, cause: ClauseResult) -> tuple[ClauseResult, ...]:
        """Return the clauses that could not be judged because of this one."""
        return consequences_of(cause, self.part.clauses)


def page(report: Report) -> str:
    """Write the report as a self-contained page."""
    style, script = (files("conformance.report").joinpath(name).read_text("utf-8") for name in ("page.css", "page.js"))
    every = _sections(report.parts)
    counts = _counts(report.subjects)
    return _template().render(
        report=report,
        sections=every,
        counts=counts if len(every) > 2 else [],
        broken=[section for section in every if section.broken],
        others=_alike(section for section in every if not section.broken),
        facts=_facts(report),
        title=_title(report.subjects, counts),
        headline=_headline(every),
        style=style,
        style_hash=_hash(style),
        script=script,
        script_hash=_hash(script),
    )


def _headline(sections: Sequence[Section]) -> Section | None:
    """Return the subject of the page, if there is exactly one."""
    subjects = [section for section in sections if section.part.subject]
    return subjects[0] if len(subjects) == 1 else None


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _sections(parts: Iterable[SubjectResult]) -> list[Section]:
    """Sort the parts, the worst verdict first; with equal verdicts the engine comes last."""
    ordered = sorted(parts, key=lambda part: (SUBJECT_VERDICTS.index(part.verdict), not part.subject))
    return [Section(part, number) for number, part in enumerate(ordered)]


def _counts(subjects: Iterable[SubjectResult]) -> list[tuple[str, str]]:
    """Return each verdict that occurs, the worst first, and how many subjects have it: ``2 fail``."""
    found = Counter(subject.verdict for subject in subjects)
    return [
        (verdict, f"{found[verdict]} {verdict if found[verdict] == 1 else verdict.removesuffix('s')}")
        for verdict in SUBJECT_VERDICTS
        if found[verdict]
    ]


def _title(subjects: Sequence[SubjectResult], counts: Iterable[tuple[str, str]]) -> str:
    if len(subjects) > _FEW:
        return "Conformance: " + ", ".join(words for _, words in counts)
    return ", ".join(f"{own.subject} {own.verdict}" for own in subjects) or "Conformance of PyTorch"


def _alike(sections: Iterable[Section]) -> list[tuple[str, list[Section]]]:
    """Group the sections that are folded under one line, such as ``298 conform``; others have no line."""
    found: list[tuple[str, list[Section]]] = []
    for (_, engine), group in groupby(sections, lambda own: (own.part.verdict, not own.part.subject)):
        alike = list(group)
        ((_, words),) = _counts(section.part for section in alike)
        found.append((words if len(alike) > _FEW and not engine else "", alike))
    return found


def _facts(report: Report) -> list[tuple[str, str]]:
    """Return facts about the run; empty ones are left out."""
    facts: dict[str, object] = {
        "command": report.command,
        "started": report.started,
        "took": f"{report.seconds:.1f} s" if report.seconds else "",
        "PyTorch itself tested": report.engine_tested,
        **report.environment,
        "suite": report.suite["version"],
    }
    shown = [(name, ", ".join(map(str, fact)) if isinstance(fact, list) else str(fact)) for name, fact in facts.items()]
    return [(name, text) for name, text in shown if text]


def _shown(value: object) -> object:
    """Called by Jinja for every value: make hidden characters visible."""
    from markupsafe import Markup

    if isinstance(value, Markup):
        return value
    return visible(str(value), _MESSAGE)


def _is_link(link: str) -> bool:
    """Tell whether a link leads to the web; others are shown as text."""
    return link.startswith(("https://", "http://"))


@cache
def _template() -> Template:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("conformance.report", ""),
        autoescape=True,
        finalize=_shown,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "address": address,
        "failures": failures,
        "how_it_ended": how_it_ended,
        "last_words": lambda rank: last_words(rank, lines=40),
        "story": story,
        "with_code": with_code,
    }
    environment.tests["link"] = _is_link
    environment.globals["levels"] = LEVELS
    return environment.get_template("page.html")
