"""What a test gave: outcomes of one rank, of one test on all its ranks, and the exceptions a test body ends with.

Everything here is plain data that crosses process borders as JSON, never as pickles.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

#: Worst first: a test's outcome is the worst of its ranks' outcomes.
OUTCOMES = ("crash", "timeout", "error", "fail", "skip", "not-applicable", "pass")

#: Longest text that a rank may hand over in one field; a subject may print or raise megabytes.
TEXT_LIMIT = 20_000


def worst(outcomes: list[str]) -> str:
    """Join outcomes: the worst one counts, and nothing at all is an error.

    >>> worst(["pass", "fail", "pass"])
    'fail'
    >>> worst([])
    'error'
    """
    return min(outcomes, key=OUTCOMES.index) if outcomes else "error"


def clipped(text: str, limit: int = TEXT_LIMIT) -> str:
    r"""Shorten a text in its middle, so that both its start and its end stay readable.

    >>> clipped("abcdefgh", 4)
    'ab\n... 4 characters left out ...\ngh'
    """
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]}\n... {len(text) - 2 * half} characters left out ...\n{text[-half:]}"


@dataclass(frozen=True)
class RankOutcome:
    """What one rank gave."""

    rank: int
    outcome: str
    message: str = ""
    likely: str = ""
    exitcode: int | None = None
    signal: str = ""
    stack: str = ""
    output: str = ""
    collectives: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()  # what the test left changed around it, such as the default dtype
    left_alone: bool = False  # not late by itself: another rank had failed, and this one waited for it

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> RankOutcome:
        """Rebuild from :meth:`to_json`; unknown keys are ignored."""
        known = {key: data[key] for key in cls.__dataclass_fields__ if key in data}
        return cls(**{**known, **{key: tuple(known.get(key, ())) for key in ("collectives", "changed")}})

    def to_json(self) -> dict[str, Any]:
        """Plain data, ready for :func:`json.dumps`."""
        return {**vars(self), "collectives": list(self.collectives), "changed": list(self.changed)}


@dataclass(frozen=True)
class TestOutcome:
    """What all ranks of one test gave together. ``subject`` is empty for clauses about PyTorch's engine."""

    __test__ = False  # pytest would take the name for a test class

    nodeid: str
    clause: str
    subject: str
    spec: str
    world: int
    outcome: str
    seconds: float
    message: str = ""
    reason: str = ""
    likely: str = ""
    reproduce: str = ""
    ranks: tuple[RankOutcome, ...] = ()

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> TestOutcome:
        """Rebuild from :meth:`to_json`; unknown keys are ignored."""
        known = {key: data[key] for key in cls.__dataclass_fields__ if key in data}
        return cls(**{**known, "ranks": tuple(RankOutcome.from_json(rank) for rank in known.get("ranks", ()))})

    def to_json(self) -> dict[str, Any]:
        """Plain data, ready for :func:`json.dumps`."""
        return {**vars(self), "ranks": [rank.to_json() for rank in self.ranks]}
