"""Validate the arguments of ``check``: each that cannot be used raises a UsageError."""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from conformance.core.clauses import CONTRACT
from conformance.core.errors import UsageError
from conformance.core.homes import NoSuchSpec, find
from conformance.core.options import RunOptions, checked_timeout
from conformance.core.plan import PlannedTest
from conformance.core.worlds import MOST_RANKS, SIMULATED, are_world_sizes
from conformance.kit.loading import check_subject, named
from conformance.kit.subject import Subject, Target
from conformance.kit.world import World

#: The specification from outside that is used without being named, and its distribution.
OPERATOR, OPERATOR_DISTRIBUTION = "Operator", "autograd-conformance-operator"


def expect_known(unknown: Collection[str], known: Collection[str]) -> None:
    """Refuse keywords that ``check`` does not have.

    Raises:
        UsageError: there is one; the message says what was probably meant.
    """
    for name in unknown:
        near = difflib.get_close_matches(name, known, 1)
        by_name = ", ".join(f"{each}=" for each in known)
        usual = f"samples go by position, such as check(function, (x, 2.0)), and by name {by_name}"
        raise UsageError(f"check takes no {name}=; {f'did you mean {near[0]}=?' if near else usual}")


def world_sizes(ranks: int | Collection[int]) -> tuple[int, ...]:
    """Sort world sizes and drop duplicates.

    Raises:
        UsageError: one is not a world size, or there are none.
    """
    sizes = tuple(ranks) if isinstance(ranks, Collection) else (ranks,)
    if not are_world_sizes(sizes):
        raise UsageError(f"ranks={ranks!r}: give a world size from 1 to {MOST_RANKS}, or several as in (2, 3)")
    return tuple(sorted(set(sizes)))


def backend(simulated: bool, schedule: int | None) -> str:
    """Name the backend of the ranks' process group.

    >>> backend(False, None), backend(True, None), backend(True, 7)
    ('gloo', 'simulated', 'simulated:7')

    Raises:
        UsageError: the ranks are not simulated, or the schedule is not a seed.
    """
    if schedule is None:
        return SIMULATED if simulated else "gloo"
    if not simulated:
        raise UsageError(f"schedule={schedule!r} is for simulated ranks: pass simulated=True")
    if type(schedule) is not int or schedule < 0:
        raise UsageError(f"schedule={schedule!r}: give a seed, a whole number from 0")
    return f"{SIMULATED}:{schedule}"


def seconds(timeout: float | None, simulated: bool) -> float:
    """Return the deadline of a test; that of a run if none is given.

    Raises:
        UsageError: it is not a number of seconds, or the ranks are threads, which nobody can end.
    """
    if timeout is None:
        return RunOptions().timeout
    if simulated:
        what = "simulated ranks are threads of this one, and cannot be ended; leave out simulated=True, or timeout="
        raise UsageError(f"timeout={timeout!r} is for rank processes: {what}")
    return checked_timeout(timeout if isinstance(timeout, int | float) else 0.0, f"timeout={timeout!r}")


def subject(function: Subject | Target, **given: Any) -> Subject:
    """Make the subject, and replace the fields that were given.

    Args:
        function: a Subject, a Function class, a callable, or the name of one.
        **given: fields of the Subject; an empty one leaves its own value.

    Raises:
        UsageError: it cannot be tested as it stands.
    """
    if isinstance(function, str):
        found = _loaded(function)
    else:
        found = function if isinstance(function, Subject) else Subject(function)
    if isinstance(found.target, str):
        found = replace(found, target=_loaded(found.target).target, name=found.label)
    if not given.get("spec") and found.spec == CONTRACT and _is_operator(found.target):
        found = _as_operator(found)
    found = check_subject(replace(found, **{name: value for name, value in given.items() if value}))
    if not callable(found.inputs) or not found.gathers:
        found.samples(World())  # report bad inputs at once; those of a gather may need their ranks
    return found


def _is_operator(target: Any) -> bool:
    """Tell whether a target is an operator of torch.library, by its definition or its overload."""
    kinds = {("torch._library.custom_ops", "CustomOpDef"), ("torch._ops", "OpOverload")}
    return (type(target).__module__, type(target).__name__) in kinds


def _as_operator(found: Subject) -> Subject:
    """Return the subject with the specification of operators, if installed; if not, a warning says how to get it."""
    try:
        find(OPERATOR)
    except NoSuchSpec:
        _hint(found.label)
        return found
    return replace(found, spec=OPERATOR)


@cache  # a loop over samples is not warned again and again
def _hint(label: str) -> None:
    said = f"{label} is an operator: pip install {OPERATOR_DISTRIBUTION}, and its schema is judged too"
    warnings.warn(said, stacklevel=5)


def chosen(only: str, tests: Sequence[PlannedTest]) -> list[PlannedTest]:
    """Select the tests of one clause, or of one name; all of them if nothing is named.

    Raises:
        UsageError: there are none.
    """
    found = [test for test in tests if only in ("", test.test.clause, test.test.function)]
    if found:
        return found
    if only and not isinstance(only, str):
        raise UsageError(f"only={only!r}: give the name of one clause or test, as in only={tests[0].test.clause!r}")
    known = sorted({name for test in tests for name in (test.test.clause, test.test.function)})
    parts = [name for name in known if name.startswith(f"{only}.")]
    near = parts[:2] or difflib.get_close_matches(only, known, 2)
    hint = f"; did you mean {' or '.join(map(repr, near))}?" if near else "; `conformance list` shows all clauses"
    raise UsageError(f"only={only!r}: no clause or test of that name concerns this subject{hint}")


def expect_runnable(tests: Sequence[PlannedTest]) -> None:
    """Check that one rank is enough for the tests, if no number of ranks was given.

    Raises:
        UsageError: some tests need more; the message says what to pass.
    """
    for test in tests:
        if test.why_not:
            sizes = (test.subject.ranks if test.subject else ()) or (2, 3)
            raise UsageError(f"spec {test.spec} needs several ranks: pass ranks={sizes!r}")


def _loaded(reference: str) -> Subject:
    try:
        return named(reference)
    except UsageError:
        raise
    except Exception as error:
        raise UsageError(f"importing {reference!r} raises {type(error).__name__}: {error}") from error
