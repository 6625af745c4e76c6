"""The marks of a suite test. They take literals only, so that they can be read without importing the test."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

__all__ = ["cases", "clause", "deadline", "ranks", "varies"]

#: A test that passes and could not judge a part of the samples returns a text that says which.
Body = TypeVar("Body", bound=Callable[..., str | None])


def clause(identifier: str) -> Callable[[Body], Body]:
    """Name the one clause that the test asserts, by its ``identifier``.

    >>> @clause("GradFactor.forward.identity")
    ... def test_values_are_kept(subject): ...
    """
    return lambda body: body


def ranks(*sizes: int, group: bool = True) -> Callable[[Body], Body]:
    """Run the test in a world of each of these ``sizes``, without a process group if ``group`` is False.

    >>> @ranks(2, 3, 4)
    ... def test_gradient_is_summed(subject, world): ...
    """
    return lambda body: body


def cases(**parameters: Sequence[Any]) -> Callable[[Body], Body]:
    """Run the test once for every combination of these literals, given as keyword arguments.

    >>> @cases(dtype=["float32", "float64"])
    ... def test_any_dtype(subject, dtype): ...
    """
    return lambda body: body


def deadline(seconds: float) -> Callable[[Body], Body]:
    """Give the test its own deadline (``seconds``), because deviating subjects are likely to hang in it.

    If a run gives tests more time than usual, this deadline grows in proportion.

    >>> @deadline(5)
    ... def test_mismatch_is_refused(subject, world): ...
    """
    return lambda body: body


def varies(*families: str, crossed: bool = False, together: bool = False) -> Callable[[Body], Body]:
    """Run the body for each sample in each variation of these ``families`` of axes; ``crossed`` with all later ones.

    On one rank, or on all ranks ``together``: its calls are the same on each, and it asserts after the last of them.

    >>> @varies("used", crossed=True)
    ... def test_outputs_that_are_left_out(probe, variation): ...
    """

    def marked(body: Body) -> Body:
        body.varies, body.crossed, body.together = families, crossed, together  # type: ignore[attr-defined]
        return body

    return marked
