"""What a method does, in the order of its source."""

from __future__ import annotations

from dataclasses import dataclass, field

from conformance.scan.model import Confidence
from conformance.scan.values import Value


@dataclass(frozen=True)
class Change:
    """An in-place change: of whose memory, by what, and how sure."""

    line: int
    shares: frozenset[str]
    confidence: Confidence
    how: str


@dataclass(frozen=True)
class Kept:
    """An assignment to an attribute of ctx."""

    line: int
    attribute: str
    value: Value


@dataclass(frozen=True)
class Returned:
    """A return statement that was reached."""

    line: int
    value: Value


@dataclass
class Trace:
    """Collected while a method is walked through."""

    changes: list[Change] = field(default_factory=list)
    kept: list[Kept] = field(default_factory=list)
    returns: list[Returned] = field(default_factory=list)
    #: Collectives whose result may be written into a copy that is then lost.
    lost: list[Change] = field(default_factory=list)
    #: Whether control may come out at the end of the method.
    comes_out: bool = True
    #: The values of the names at the end.
    after: dict[str, Value] = field(default_factory=dict)
