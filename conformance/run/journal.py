"""The journal of a run: what was asked for, then each outcome as it actual, so that a killed run can go on."""

from __future__ import annotations

import argparse
import contextlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TextIO

from conformance.core import clauses
from conformance.core.errors import UsageError
from conformance.core.outcomes import TestOutcome

JOURNAL = "outcomes.jsonl"
#: What of the command line decides which tests there are and how they run.
ASKED = (
    "subjects", "packages", "spec", "inputs", "ranks", "backend", "device", "timeout", "setup", "expression"
)  # fmt: skip


class Journal:
    """A file of JSON lines that only grows."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / JOURNAL
        self.outcomes: list[TestOutcome] = []
        self.lost = ""
        self.file: TextIO | None = None

    def begin(self, arguments: argparse.Namespace, launcher: str = "") -> None:
        """Start anew; the launcher, if any, is noted, so that its next attempt can go on.

        Raises:
            OSError: the file cannot be written.
        """
        self.path.unlink(missing_ok=True)
        self.file = self.path.open("w", encoding="utf-8")
        self._write({"asked": _asked(arguments), "clauses_sha256": clauses.digest(), "launcher": launcher})

    def go_on(self, arguments: argparse.Namespace, defaults: argparse.Namespace) -> None:
        """Take over what an earlier run asked for, and its outcomes.

        Raises:
            UsageError: there is no such run, or it was another one.
        """
        try:
            text = self.path.read_text("utf-8", "replace")
            self.file = self.path.open("a", encoding="utf-8")
        except OSError as error:
            raise UsageError(f"--resume {str(self.path.parent)!r}: {error.strerror} ({JOURNAL})") from None
        if text and not text.endswith("\n"):
            self.file.write("\n")  # the line that was being written when the run was killed
        lines = [line for line in map(_parsed, text.splitlines()) if line is not None]
        if not lines or not isinstance(lines[0].get("asked"), dict):
            raise UsageError(f"--resume {str(self.path.parent)!r}: {JOURNAL} is no journal of a run; start anew")
        if lines[0].get("clauses_sha256") != clauses.digest():
            raise UsageError(f"--resume {str(self.path.parent)!r}: the clauses have changed since; start anew")
        _take_over(lines[0]["asked"], arguments, defaults)
        self.outcomes = [outcome for outcome in map(_outcome, lines[1:]) if outcome is not None]

    def begun_by(self, launcher: str) -> bool:
        """Whether this very launcher began the run, in an attempt before this one."""
        try:
            with self.path.open(encoding="utf-8", errors="replace") as file:
                head = _parsed(file.readline()) or {}
        except OSError:
            return False
        return bool(launcher) and head.get("launcher") == launcher

    def note(self, data: Mapping[str, Any]) -> None:
        """Write an outcome down. A disk that is full does not end the run."""
        if self.file is not None and not self.lost:
            try:
                self._write(data)
            except OSError as error:
                self.lost = f"{self.path}: {error.strerror}; this run cannot be resumed from here"

    def close(self) -> None:
        """Nothing more is to be written."""
        if self.file is not None:
            with contextlib.suppress(OSError):
                self.file.close()

    def _write(self, data: Mapping[str, Any]) -> None:
        assert self.file is not None
        self.file.write(json.dumps(data) + "\n")
        self.file.flush()


def _asked(arguments: argparse.Namespace) -> dict[str, Any]:
    return {name: getattr(arguments, name, None) for name in ASKED}


def _take_over(asked: Mapping[str, Any], arguments: argparse.Namespace, defaults: argparse.Namespace) -> None:
    """Set the arguments to those of the earlier run; whoever gives others means another run."""
    for name, now in _asked(arguments).items():
        earlier = asked.get(name)
        if now not in (earlier, getattr(defaults, name, None)):
            raise UsageError(f"--resume goes on with the run as it was asked for: {name} was {earlier!r}, not {now!r}")
        setattr(arguments, name, earlier)


def _parsed(line: str) -> dict[str, Any] | None:
    try:
        data = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return data if isinstance(data, dict) else None


def _outcome(data: Mapping[str, Any]) -> TestOutcome | None:
    try:
        return TestOutcome.from_json(data)
    except (ValueError, TypeError, AttributeError):
        return None
