"""The arguments of ``check``, validated: whatever cannot be used is a UsageError."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from conformance.core.errors import UsageError
from conformance.core.options import LONGEST_TIMEOUT, MOST_RANKS, SHORTEST_TIMEOUT
from conformance.core.plan import PlannedTest
from conformance.kit.loading import check_subject, named
from conformance.kit.subject import Subject, Target
from conformance.kit.world import World


def world_sizes(ranks: int | Collection[int]) -> tuple[int, ...]:
    """World sizes in order, each one once.

    Raises:
        UsageError: one is no world size, or there are none.
    """
    sizes = tuple(ranks) if isinstance(ranks, Collection) else (ranks,)
    if not sizes or not all(type(size) is int and 1 <= size <= MOST_RANKS for size in sizes):
        raise UsageError(f"ranks={ranks!r}: give a world size of 1 or more, or several as in (2, 3)")
    return tuple(sorted(set(sizes)))


def seconds(timeout: float) -> float:
    """The deadline of a test.

    Raises:
        UsageError: it is none.
    """
    if not (isinstance(timeout, int | float) and SHORTEST_TIMEOUT <= timeout <= LONGEST_TIMEOUT):
        raise UsageError(f"timeout={timeout!r}: give a number of seconds from {SHORTEST_TIMEOUT} to {LONGEST_TIMEOUT}")
    return timeout


def subject(function: Subject | Target, **given: Any) -> Subject:
    """The subject, with what was given besides.

    Args:
        function: a Subject, a Function class, a callable, or the name of one.
        **given: fields of the Subject; an empty one leaves what it has.

    Raises:
        UsageError: it cannot be tested as it stands.
    """
    if isinstance(function, str):
        found = _loaded(function)
    else:
        found = function if isinstance(function, Subject) else Subject(function)
    if isinstance(found.target, str):
        found = replace(found, target=_loaded(found.target).target, name=found.label)
    found = check_subject(replace(found, **{name: value for name, value in given.items() if value}))
    if not callable(found.inputs) or not found.gathers:
        found.samples(World())  # inputs that cannot be used are said at once; a gather's may need their ranks
    return found


def chosen(only: str, tests: Sequence[PlannedTest]) -> list[PlannedTest]:
    """The tests of one clause, or of one name; all of them where nothing is named.

    Raises:
        UsageError: there are none.
    """
    found = [test for test in tests if only in ("", test.test.clause, test.test.function)]
    if found:
        return found
    known = sorted({name for test in tests for name in (test.test.clause, test.test.function)})
    parts = [name for name in known if isinstance(only, str) and name.startswith(f"{only}.")]
    near = parts[:2] or (difflib.get_close_matches(only, known, 2) if isinstance(only, str) else [])
    hint = f"; did you mean {' or '.join(map(repr, near))}?" if near else "; `conformance list` shows all clauses"
    raise UsageError(f"only={only!r}: no clause or test of that name concerns this subject{hint}")


def _loaded(reference: str) -> Subject:
    try:
        return named(reference)
    except UsageError:
        raise
    except Exception as error:
        raise UsageError(f"importing {reference!r} raises {type(error).__name__}: {error}") from error
