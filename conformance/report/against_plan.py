"""Compare the tests in a report with those that the installed suite plans for the same subjects and worlds."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping

from conformance.core import catalog
from conformance.core.clauses import Clause
from conformance.core.outcomes import BROKEN, TestOutcome
from conformance.core.plan import PlannedTest, SubjectRef, plan, promised
from conformance.report.model import Report, SubjectResult

#: No run has more worlds; a forged report could name so many that planning them never ends.
MOST_WORLDS = 100
#: The parts of a command that runs one test alone, besides the subject.
_FLAGS = {"--spec", "--types", "--inputs", "--ranks", "--device", "--backend", "-k"}
_CALL = re.compile(r"check\(\w+, \.\.\., only='[\w.-]+'\)")


def against_plan(report: Report, clauses: Mapping[str, Clause]) -> Iterator[str]:
    """Yield the differences between the tests of a report and those of the plan."""
    sizes = report.environment["ranks"]
    if len(sizes) > MOST_WORLDS:
        yield f"{len(sizes)} world sizes: no run is in so many"
        return
    tests = promised(catalog.suite(*(own.name for own in report.specs)), clauses, report.environment["torch"])
    specs = {clause.spec for clause in clauses.values()}
    for part in report.parts:
        if part.spec not in specs:
            yield f"{named(part)}: there is no spec {part.spec}"
            continue
        reference = SubjectRef(part.subject, part.spec, label=part.subject, ranks=part.ranks)
        every = plan(tests, clauses, [reference] if part.subject else [], sizes)
        yield from _compared(part, {test.nodeid: test for test in every if test.label == part.subject})


def _compared(part: SubjectResult, planned: Mapping[str, PlannedTest]) -> Iterator[str]:
    found = Counter(test.nodeid for result in part.clauses for test in result.tests)
    for name, count in found.items():
        if name not in planned:
            yield f"{named(part)}: {name} is not a test that the suite plans"
        elif count > 1:
            yield f"{named(part)}: {name} is there {count} times"
    for name in planned:
        if name not in found:
            yield f"{named(part)}: {name} is missing"
    for result in part.clauses:
        for test in result.tests:
            if test.nodeid in planned:
                yield from _as_planned(f"{named(part)}: {test.nodeid}", test, planned[test.nodeid])


def _as_planned(where: str, test: TestOutcome, planned: PlannedTest) -> Iterator[str]:
    if test.clause != planned.test.clause:
        yield f"{where} asserts {planned.test.clause}, not {test.clause}"
    if test.world != planned.size:
        yield f"{where} runs on {planned.size} ranks, not {test.world}"
    if test.reproduce and not (test.outcome in BROKEN and _runs_the_suite(test.reproduce, planned)):
        yield f"{where} is said to be reproduced by a command that does something else"


def _runs_the_suite(command: str, planned: PlannedTest) -> bool:
    """Tell whether a command runs the test's subject in this suite, and nothing else."""
    try:
        words = shlex.split(command)
    except ValueError:
        return False
    if words[:2] != ["conformance", "run"]:
        return bool(_CALL.fullmatch(command))
    rest = words[2:]
    if planned.subject and rest[:1] != [planned.label.removesuffix(f" ({planned.spec})")]:
        return False
    rest = rest[bool(planned.subject) :]
    return shlex.join(words) == command and set(rest[::2]) <= _FLAGS and len(rest) % 2 == 0


def named(part: SubjectResult) -> str:
    """Return a subject with its spec, or PyTorch's engine."""
    return f"{part.subject} ({part.spec})" if part.subject else "engine"
