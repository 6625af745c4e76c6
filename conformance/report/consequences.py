"""One cause, one accusation: find the broken clauses that could not be judged because of another one.

A test that ends in an error, a crash or a timeout did not judge its own clause. If another broken clause of the same
subject explains that ending, the clause is a consequence and accuses nobody. Three things explain it:

- PyTorch's own message, if it names the promise that was broken;
- an assertion that failed and quotes the very exception;
- the same ending, at the same line of code, while the subject was imported, or in the same collective.

An assertion that failed is a consequence in two cases only. If nobody waits for asynchronous work, any comparison may
fail; that is the only reason if nothing differs once every collective ends before it returns. And a test may name
another clause: its message ends with ``; see`` and the id. If an assertion of that clause failed, a failure that names
it says nothing new, and a clause that does not apply was not judged because of it. A cause has the same level or a
stricter one, so a consequence never improves the verdict on a subject.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from conformance.core.accidents import ON_IMPORT, Accident, accident_of, without_numbers
from conformance.core.outcomes import BROKEN, HOLDS_WITH, NOT_WAITED_FOR, TestOutcome
from conformance.report.model import LEVELS, ClauseResult
from conformance.report.text import first_line

#: Patterns of exceptions in which PyTorch itself says which promise was broken, each with the id of the clause.
_TOLD_BY_PYTORCH = (
    (re.compile("returned an incorrect number of gradients"), "Function.backward.count"),
    (re.compile("returned a gradient different than None at position"), r"\w+\.backward\.none-for-[\w-]+"),
    (re.compile("jvp returned an invalid number of forward gradients"), "Function.jvp.count"),
    (re.compile(r"expected Variable or None \(got list\)$"), "Function.backward.count"),
    (re.compile(r"expected Variable or None \(got list\) for grad output"), "Function.jvp.count"),
    (re.compile("save_for_backward can only save variables"), "Function.save_for_backward.only-tensors"),
    (re.compile("marked as dirty during the forward method were not returned"), "Function.mark_dirty.only-inputs"),
    (re.compile("both generate_vmap_rule=True and an overridden vmap"), "Function.vmap.not-both"),
    (re.compile("Expected the vmap staticmethod to have two returns"), "Function.vmap.out-dims"),
    (re.compile(r"vmap staticmethod returned an incompatible \(output, out_dims\) tuple"), "Function.vmap.out-dims"),
)

#: The clause that a test names at the end of its message.
_REFERENCE = re.compile(r"; see (\S+)$")

#: In which method of the subject a rank waited, or raised an error.
_WAITED = re.compile(r", in (forward|backward)\b")


def with_consequences(clauses: Sequence[ClauseResult]) -> tuple[ClauseResult, ...]:
    """Mark the explained clauses of a subject as consequences, with the id of their cause."""
    causes: list[ClauseResult] = []
    explained: dict[str, str] = {}
    for clause in in_order(clause for clause in clauses if clause.broken):
        cause = _cause_of(clause, causes)
        if cause is None:
            causes.append(clause)
        else:
            explained[clause.id] = cause.id
    for clause in clauses:
        if clause.verdict == "not-applicable":
            named = [explained.get(name, name) for name in _referred_to(clause)]
            cause = _judged_broken(named, causes)
            if cause and LEVELS.index(cause.level) <= LEVELS.index(clause.level):
                explained[clause.id] = cause.id
    return tuple(
        replace(clause, verdict="consequence", reason=explained[clause.id]) if clause.id in explained else clause
        for clause in clauses
    )


def in_order(broken: Iterable[ClauseResult]) -> list[ClauseResult]:
    """Sort broken clauses for the report: the stricter first; within a level, possible causes and a spec's own first.

    If clauses ended in the same way, and another test of one of them passed in the same world, that one is not the
    cause, unless only some samples end so: a test passes without them. Neither is one on forward if ranks hang or raise
    in backward, or the other way round.
    """

    def place(clause: ClauseResult) -> tuple[int, bool, bool, bool, bool]:
        asserted = _asserted(clause)
        worlds = {test.world for test in clause.tests if test.outcome in BROKEN}
        of_some = any(HOLDS_WITH in test.message for test in clause.tests)
        passed = not of_some and any(test.outcome == "pass" and test.world in worlds for test in clause.tests)
        is_of_contract = clause.id.startswith("Function.")
        return LEVELS.index(clause.level), not asserted, passed and not asserted, _is_elsewhere(clause), is_of_contract

    return sorted(broken, key=place)


def consequences_of(cause: ClauseResult, clauses: Iterable[ClauseResult]) -> tuple[ClauseResult, ...]:
    """Return the clauses that could not be judged because of this one."""
    return tuple(clause for clause in clauses if clause.verdict == "consequence" and clause.reason == cause.id)


def cannot_be_judged(clauses: Sequence[ClauseResult]) -> str:
    """Say why no clause of a subject can be judged, if there is one cause; empty otherwise."""
    causes = [clause for clause in clauses if clause.broken]
    others = sum(clause.verdict == "consequence" for clause in clauses)
    if len(causes) != 1 or not others or any(clause.verdict == "pass" for clause in clauses):
        return ""
    if any(accident.words.startswith(ON_IMPORT) for test in causes[0].tests for accident in _accidents(test)):
        return "cannot be imported, so nothing could be judged"
    return "cannot be called with its samples, so nothing could be judged" if not _asserted(causes[0]) else ""


def _cause_of(clause: ClauseResult, causes: Sequence[ClauseResult]) -> ClauseResult | None:
    """Find the first cause that explains a broken test of this clause; None unless causes explain all of them."""
    if _is_left_behind(clause):
        return next((cause for cause in causes if any(map(_shows_what_is_left_behind, _broken(cause)))), None)
    if clause.verdict == "fail" and len(named := _referred_to(clause)) == 1:
        return _judged_broken(named, causes)
    accidents = {accident for test in _broken(clause) for accident in _accidents(test)}
    if _asserted(clause) or not accidents:
        return None
    explaining = [[cause for cause in causes if _explains(cause, accident)] for accident in accidents]
    return min((each[0] for each in explaining), key=causes.index) if all(explaining) else None


def _referred_to(clause: ClauseResult) -> list[str]:
    """Return the clauses named by the tests that decided the verdict; an empty name if such a test names none."""
    words = [test.message or test.reason for test in clause.tests if test.outcome == clause.verdict]
    found = map(_REFERENCE.search, words)
    return list(dict.fromkeys(reference[1] if reference else "" for reference in found))


def _judged_broken(names: Sequence[str], causes: Sequence[ClauseResult]) -> ClauseResult | None:
    return next((cause for cause in causes if cause.id in names and _asserted(cause)), None)


def _explains(cause: ClauseResult, accident: Accident) -> bool:
    known = {accident for test in _broken(cause) for accident in _accidents(test) if accident.telling}
    quoted = [test.message for test in _broken(cause) if test.outcome == "fail"]
    return accident in known or _names(accident, cause.id) or _quotes(quoted, accident)


def _is_left_behind(clause: ClauseResult) -> bool:
    """Tell whether a missing ``wait()`` explains every test that broke a clause."""
    return all(map(_shows_what_is_left_behind, _broken(clause)))


def _shows_what_is_left_behind(test: TestOutcome) -> bool:
    return test.likely in NOT_WAITED_FOR


def _is_elsewhere(clause: ClauseResult) -> bool:
    """Tell whether a clause is about one method, and every test that broke it hung or raised in the other."""
    ended = [f"{test.likely} {test.message}" for test in _broken(clause) if not test.asserted]
    methods = {found[1] for words in ended if (found := _WAITED.search(words))}
    other = {"backward": ".forward.", "forward": ".backward."}
    return len(methods) == 1 and other[methods.pop()] in clause.id


def _names(accident: Accident, clause: str) -> bool:
    return any(words.search(accident.words) and re.fullmatch(named, clause) for words, named in _TOLD_BY_PYTORCH)


def _quotes(messages: Iterable[str], accident: Accident) -> bool:
    if accident.outcome != "error":
        return False
    return any(accident.words in without_numbers(message) for message in messages)


def _asserted(clause: ClauseResult) -> bool:
    """Tell whether an assertion failed, so that the clause itself was judged."""
    return any(test.asserted for test in clause.tests)


def _broken(clause: ClauseResult) -> Iterator[TestOutcome]:
    return (test for test in clause.tests if test.outcome in BROKEN)


def _accidents(test: TestOutcome) -> Iterator[Accident]:
    """Yield the endings of the ranks that decided the outcome; empty for an assertion, or if no rank answered."""
    for rank in test.ranks:
        if rank.outcome == test.outcome != "fail" and not rank.bystander:
            yield accident_of(rank, first_line(rank.message))
