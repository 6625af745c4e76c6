"""Which subjects have answered a call in this process, and how long that took: of any other, every call has raised."""

from __future__ import annotations

import time
from collections.abc import Callable

#: The subjects, by label.
ANSWERED: set[str] = set()
#: Python's own, whatever a test puts in its place later.
processor_time = time.process_time
#: Who is told the processor time (seconds) of the first call that came back: a rank tells its controller.
LISTENERS: list[Callable[[float], object]] = []


def note(label: str, seconds: float) -> None:
    """Take note of a call that came back.

    Args:
        label: the subject's.
        seconds: the processor time that the call took.
    """
    if label not in ANSWERED:
        ANSWERED.add(label)
        for tell in LISTENERS:
            tell(seconds)
