"""Record which subjects have returned from a call in this process, how long it took, and which Functions ran."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable

#: The subjects, by label.
ANSWERED: set[str] = set()
#: Python's own function, in case a test replaces it later.
processor_time = time.process_time
#: The Function classes that ran in the calls of each subject, by label, as ``module:name``.
FUNCTIONS: dict[str, tuple[str, ...]] = {}
#: How many calls of each subject returned, by label.
CALLS: Counter[str] = Counter()
#: How many samples each subject was given, by label.
SAMPLES: dict[str, int] = {}
#: Called with the processor time (seconds) of one call for each sample: a rank reports it to its controller.
LISTENERS: list[Callable[[float], object]] = []
#: Time that the suite itself needs around one call (seconds).
AROUND = 0.001


def note(label: str, seconds: float) -> None:
    """Record a call that returned; the first one is reported.

    Args:
        label: the subject's.
        seconds: the processor time that the call took.
    """
    CALLS[label] += 1
    if label not in ANSWERED:
        ANSWERED.add(label)
        for tell in LISTENERS:
            tell((seconds + AROUND) * SAMPLES.get(label, 1))
