"""The result of a scan: plain frozen data, ready for a table, JSON or SARIF."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Confidence = Literal["certain", "likely", "possible"]

#: Least sure first.
CONFIDENCES: tuple[Confidence, ...] = ("possible", "likely", "certain")


def weakest(*confidences: Confidence) -> Confidence:
    """Return the confidence of a conclusion: that of its least sure premise.

    >>> weakest("certain", "likely")
    'likely'
    """
    return min(confidences, key=CONFIDENCES.index)


def at_least(confidence: Confidence, floor: Confidence) -> bool:
    """Tell whether ``confidence`` is as sure as ``floor``, or surer.

    >>> at_least("likely", "certain")
    False
    """
    return CONFIDENCES.index(confidence) >= CONFIDENCES.index(floor)


@dataclass(frozen=True)
class Finding:
    """One place that seems to break a clause: how sure it is, where, and why."""

    clause: str
    confidence: Confidence
    file: str
    line: int
    message: str


@dataclass(frozen=True)
class Found:
    """One Function subclass. ``qualname`` is ``module:Qualified.Name``, as ``conformance run`` takes it."""

    file: str
    line: int
    name: str
    qualname: str
    members: tuple[str, ...]
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True)
class Skipped:
    """A file, or a class in it, that could not be read, and why."""

    file: str
    reason: str


@dataclass(frozen=True)
class Scan:
    """Everything found under ``target``; paths of files are relative to ``root``."""

    target: str
    root: str
    files: int
    found: tuple[Found, ...]
    skipped: tuple[Skipped, ...] = ()
    seconds: float = 0.0

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Return all findings, in the order of the classes."""
        return tuple(finding for found in self.found for finding in found.findings)
