"""The journal of a run: its options, then each outcome, so that a killed run can be resumed."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TextIO

from conformance.core import clauses
from conformance.core.errors import UsageError
from conformance.core.options import RunOptions
from conformance.core.outcomes import TestOutcome

JOURNAL = "outcomes.jsonl"


class Journal:
    """A file of JSON lines that is only appended to."""

    def __init__(self, path: Path, file: TextIO, outcomes: list[TestOutcome]) -> None:
        self.path = path
        self.file = file
        self.outcomes = outcomes
        self.lost = ""

    @classmethod
    def begin(cls, folder: Path, options: RunOptions, launcher: str = "") -> Journal:
        """Begin a journal; the launcher is recorded, so that its next attempt can resume the run.

        Raises:
            UsageError: the file cannot be written.
        """
        path = folder / JOURNAL
        head = {"asked": options.to_json(), "clauses_sha256": clauses.digest(), "launcher": launcher}
        try:
            path.unlink(missing_ok=True)
            journal = cls(path, path.open("w", encoding="utf-8"), [])
            journal._write(json.dumps(head))
        except OSError as error:
            raise UsageError(f"cannot write {path}: {error.strerror}") from None
        return journal

    @classmethod
    def resume(cls, folder: Path) -> tuple[Journal, RunOptions]:
        """Open the journal of an earlier run; return it with that run's options.

        Raises:
            UsageError: there is no such run, or it was another one.
        """
        path, refused = folder / JOURNAL, f"--resume {str(folder)!r}"
        try:
            text = path.read_text("utf-8", "replace")
        except FileNotFoundError:
            raise UsageError(f"{refused}: it has no {JOURNAL}; give the folder of a run with --report") from None
        except OSError as error:
            raise UsageError(f"{refused}: {error.strerror} ({JOURNAL})") from None
        head, *rest = [line for line in map(_parsed, text.splitlines()) if line is not None] or [{}]
        if not isinstance(head.get("asked"), dict):
            raise UsageError(f"{refused}: {JOURNAL} is not the journal of a run; start anew")
        if head.get("clauses_sha256") != clauses.digest():
            raise UsageError(f"{refused}: the clauses have changed since; start anew")
        try:
            asked = RunOptions.from_json(head["asked"])
            file = path.open("a", encoding="utf-8")
        except UsageError as error:
            raise UsageError(f"{refused}: {JOURNAL} is damaged: {error}; start anew") from None
        except OSError as error:
            raise UsageError(f"{refused}: {error.strerror} ({JOURNAL})") from None
        if text and not text.endswith("\n"):
            file.write("\n")  # the line that was being written when the run was killed
        return cls(path, file, [outcome for outcome in map(_outcome, rest) if outcome is not None]), asked

    def note(self, outcome: TestOutcome) -> None:
        """Append an outcome. A full disk does not end the run."""
        if not self.lost:
            try:
                self._write(outcome.to_text())
            except OSError as error:
                self.lost = f"{self.path}: {error.strerror}; this run cannot be resumed from here"

    def close(self) -> None:
        """Close the file."""
        with contextlib.suppress(OSError):
            self.file.close()

    def _write(self, line: str) -> None:
        self.file.write(line + "\n")
        self.file.flush()


def begun_by(folder: Path, launcher: str) -> bool:
    """Whether an earlier attempt of the same launcher began the run in this folder."""
    try:
        with (folder / JOURNAL).open(encoding="utf-8", errors="replace") as file:
            head = _parsed(file.readline()) or {}
    except OSError:
        return False
    return bool(launcher) and head.get("launcher") == launcher


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
