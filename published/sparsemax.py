"""sparsemax: the projection onto the simplex."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from conformance.kit.specs import random
from conformance.kit.subject import Subject
from published.packages import enter

enter("sparsemax")


def _rows() -> Iterator[tuple[Any, ...]]:
    yield random((4, 5), 1), -1
    yield random((2, 3, 4), 2), 1


sparsemax = Subject("sparsemax.sparsemax:SparsemaxFunction", inputs=_rows)
