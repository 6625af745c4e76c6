"""Record of each subject in this process: that a call returned, its time, its operations, and which Functions ran."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable

from conformance.kit.graph import names_of_functions_behind

#: The subjects, by label.
ANSWERED: set[str] = set()
#: Python's own functions, in case a test replaces them later.
processor_time, clock = time.process_time, time.clock_gettime
#: The Function classes that ran in the calls of each subject, by label, as ``module:name``.
FUNCTIONS: dict[str, tuple[str, ...]] = {}
#: In the graphs of how many calls of a subject they are looked for: if there are none, later calls need no search.
SEARCHED = 100
#: How many calls of each subject returned, by label.
CALLS: Counter[str] = Counter()
#: How many operations forward and backward of each sample take, by label of the subject.
OPERATIONS: dict[str, dict[str, int]] = {}
#: How many samples each subject was given, by label.
SAMPLES: dict[str, int] = {}
#: Called with the processor time (seconds) of one call for each sample: a rank reports it to its controller. Called
#: again while further calls return, so that the controller can tell slow tests from tests that hang.
LISTENERS: list[Callable[[float], object]] = []
#: Time that the suite itself needs around one call (seconds).
AROUND = 0.001
#: How often the listeners are called (seconds).
EVERY = 0.5
#: When they were called last, by the kernel's clock.
_told_at = [0.0]


def forget(label: str) -> None:
    """Forget what is known of a subject: in the next check another one may have its label, as lambdas have."""
    ANSWERED.discard(label)
    FUNCTIONS.pop(label, None)
    CALLS.pop(label, None)
    OPERATIONS.pop(label, None)


def note(label: str, seconds: float, result: object) -> None:
    """Record a call that returned; the first one is reported, and one in half a second of the others.

    ``seconds`` is its processor time.
    """
    CALLS[label] += 1
    is_searched = label not in FUNCTIONS and CALLS[label] <= SEARCHED
    if is_searched and (names := names_of_functions_behind(result)):
        FUNCTIONS[label] = names
    now = clock(time.CLOCK_MONOTONIC)
    if label not in ANSWERED or now - _told_at[0] > EVERY:
        ANSWERED.add(label)
        _told_at[0] = now
        for tell in LISTENERS:
            tell((seconds + AROUND) * SAMPLES.get(label, 1))
