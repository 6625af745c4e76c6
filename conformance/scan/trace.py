"""What a method was seen to do, in the order of its source."""

from __future__ import annotations

from dataclasses import dataclass, field

from conformance.scan.model import Confidence
from conformance.scan.values import Value


@dataclass(frozen=True)
class Change:
    """Tensors were changed in place: whose memory, by what, and how sure."""

    line: int
    shares: frozenset[str]
    confidence: Confidence
    how: str


@dataclass(frozen=True)
class Kept:
    """Something was put on ctx."""

    line: int
    attribute: str
    value: Value


@dataclass(frozen=True)
class Returned:
    """A return statement was reached."""

    line: int
    value: Value


@dataclass
class Trace:
    """Collected while a method is walked through."""

    changes: list[Change] = field(default_factory=list)
    kept: list[Kept] = field(default_factory=list)
    returns: list[Returned] = field(default_factory=list)
    #: Collectives whose result may land in a copy that nobody holds.
    lost: list[Change] = field(default_factory=list)
    #: Whether control may come out at the end of the method.
    comes_out: bool = True
    #: What the names hold where control comes out.
    after: dict[str, Value] = field(default_factory=dict)
