"""skada: the reversal of a gradient."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from conformance.kit.specs import random
from conformance.kit.subject import Subject
from published.packages import bare, enter

bare(enter("skada"), "skada.deep")


def _weighted() -> Iterator[tuple[Any, ...]]:
    yield random((4, 3), 1), 0.5
    yield random((4, 3), 1), 0.5, None


def _reversed(args: tuple[Any, ...], grads: tuple[Any, ...]) -> tuple[Any, ...]:
    return (-args[1] * grads[0],)


gradient_reversal = Subject(
    "skada.deep.modules:GradientReversalLayer", inputs=_weighted, gradient="declared", formula=_reversed
)
