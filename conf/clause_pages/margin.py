"""The margin of a clause: tests that assert it, planted bugs it killed, verdicts by environment and implementation."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from clause_pages.html import Markup, link, prose, tag, together
from clause_pages.record import ENGINE, ROOT, Bug, Record, Run
from conformance.core.catalog import Test
from conformance.report.model import BROKEN, VERDICTS

MARKS = {"pass": "✓", "not-applicable": "–", "skipped": "…", **dict.fromkeys(BROKEN, "✗")}  # noqa: RUF001


def margin(record: Record, identifier: str, docname: str) -> Markup:
    """A line of counts that opens to the names behind them."""
    tests, bugs = record.tests.get(identifier, ()), record.bugs_of.get(identifier, ())
    judged = list(record.verdicts(identifier))
    line = [
        _reference(judged),
        tag("span", _count(len(tests), "test")),
        tag("span", f"{_count(len(bugs), 'planted bug')} killed"),
        *_others(judged),
    ]
    inside = [_tests(tests, docname), _bugs(bugs, docname), _verdicts(judged, docname)]
    return tag("details", tag("summary", *line), *inside, class_="margin")


def worst(verdicts: Iterable[str]) -> str:
    """The worst verdict, or an empty text where there is none.

    >>> worst(["pass", "crash", "fail"])
    'crash'
    """
    return min(verdicts, key=VERDICTS.index, default="")


def verdict_class(verdict: str) -> str:
    """How a verdict is coloured."""
    return "bad" if verdict in BROKEN else {"pass": "good", "": "none"}.get(verdict, "none")


def _reference(judged: Iterable[tuple[Run, Mapping[str, Any]]]) -> Markup:
    verdict = worst(found["verdict"] for run, found in judged if run.about_reference)
    words = {"pass": "holds", "": "not run yet", "skipped": "not run", "not-applicable": "not applicable here"}
    said = words.get(verdict, f"broken ({verdict})")
    return tag("span", f"{MARKS.get(verdict, '…')} {said}", class_=f"verdict {verdict_class(verdict)}")


def _others(judged: Iterable[tuple[Run, Mapping[str, Any]]]) -> list[Markup]:
    verdicts = [found["verdict"] for run, found in judged if not run.about_reference]
    kept, broken = verdicts.count("pass"), sum(verdict in BROKEN for verdict in verdicts)
    return [tag("span", f"published: {kept} keep it, {broken} break it")] if kept or broken else []


def _count(number: int, word: str) -> str:
    return f"{number or 'no'} {word}{'' if number == 1 else 's'}"


def _source(docname: str, path: str, line: int) -> str:
    return link(docname, f"source/{path}.html#L-{line}")


def _tests(tests: Iterable[Test], docname: str) -> Markup:
    rows = [
        tag(
            "li",
            tag("a", test.function, href=_source(docname, test.file.relative_to(ROOT).as_posix(), test.line)),
            " ",
            prose(test.doc.split("\n\n")[0]),
        )
        for test in tests
    ]
    return together(tag("p", "Tests"), tag("ul", *rows)) if rows else tag("p", "No test asserts it.")


def _bugs(bugs: Iterable[Bug], docname: str) -> Markup:
    proof = link(docname, "proof.html")
    rows = [
        tag("li", tag("a", bug.name, href=f"{proof}#bug-{bug.implementation}"), " ", prose(bug.text)) for bug in bugs
    ]
    return together(tag("p", "Planted bugs killed"), tag("ul", *rows)) if rows else tag("p", "No planted bug yet.")


def _verdicts(judged: Iterable[tuple[Run, Mapping[str, Any]]], docname: str) -> Markup:
    judged = list(judged)
    if not judged:
        return tag("p", "In no committed report.")
    results = link(docname, "results.html")
    rows = [*_of_the_reference(judged), *_of_the_published(judged, docname)]
    return together(tag("p", "Verdicts (", tag("a", "all results", href=results), ")"), tag("ul", *rows))


def _of_the_reference(judged: Iterable[tuple[Run, Mapping[str, Any]]]) -> Iterator[Markup]:
    """PyTorch and the reference, with those that fared alike in one line."""
    places: dict[tuple[str, str], list[str]] = defaultdict(list)
    for run, found in judged:
        if run.about_reference:
            name = "PyTorch itself" if run.implementation == ENGINE else run.implementation
            places[name, found["verdict"]].append(f"{run.environment} ({run.date})")
    groups: dict[tuple[str, tuple[str, ...]], list[str]] = defaultdict(list)
    for (name, verdict), where in places.items():
        groups[verdict, tuple(sorted(set(where)))].append(name)
    for (verdict, where), names in sorted(groups.items(), key=lambda group: (VERDICTS.index(group[0][0]), group[0][1])):
        yield tag("li", _mark(verdict), f" {', '.join(names)}: {'; '.join(where)}")


def _of_the_published(judged: Iterable[tuple[Run, Mapping[str, Any]]], docname: str) -> Iterator[Markup]:
    """Everybody else: by name where the clause is broken, else by number."""
    names: dict[str, list[str]] = defaultdict(list)
    for run, found in judged:
        if not run.about_reference:
            names[found["verdict"]].append(run.name)
    page = link(docname, "results-published.html")
    for verdict in sorted(names, key=VERDICTS.index):
        who = sorted(set(names[verdict]))
        said = ", ".join(who) if verdict in BROKEN else str(len(who))
        yield tag("li", _mark(verdict), " ", tag("a", "published", href=page), f": {said}")


def _mark(verdict: str) -> Markup:
    return tag("span", f"{MARKS[verdict]} {verdict}", class_=f"verdict {verdict_class(verdict)}")
