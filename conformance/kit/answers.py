"""Which subjects have answered a call in this process, and how long that took: of any other, every call has raised."""

from __future__ import annotations

import time
from collections.abc import Callable

#: The subjects, by label.
ANSWERED: set[str] = set()
#: Python's own, whatever a test puts in its place later.
processor_time = time.process_time
#: How many samples a subject has, by label, where it was given any.
SAMPLES: dict[str, int] = {}
#: Who is told the processor time (seconds) of a call with each sample: a rank tells its controller.
LISTENERS: list[Callable[[float], object]] = []
#: What the suite itself takes around one call (seconds).
AROUND = 0.001


def note(label: str, seconds: float) -> None:
    """Take note of a call that came back: the first one is told.

    Args:
        label: the subject's.
        seconds: the processor time that the call took.
    """
    if label not in ANSWERED:
        ANSWERED.add(label)
        for tell in LISTENERS:
            tell((seconds + AROUND) * SAMPLES.get(label, 1))
