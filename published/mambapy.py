"""mamba.py: a scan in parallel, padded to a power of two."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from conformance.kit.specs import random
from conformance.kit.subject import Subject
from published.packages import bare, enter

bare(enter("mambapy"), "mambapy")


def _lengths() -> Iterator[tuple[Any, ...]]:
    for length in (4, 5, 9):
        yield random((2, length, 2, 3), 1), random((2, length, 2, 3), 2)


pscan = Subject("mambapy.pscan:PScan", inputs=_lengths)
