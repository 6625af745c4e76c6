"""Keep the journal of a run: its options, then each outcome, so that a killed run can be resumed.

A journal says what to import and what passed, so every line is signed with the user's key: lines that somebody else
wrote are not used.
"""

from __future__ import annotations

import contextlib
import hmac
import json
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TextIO

from conformance.core import clauses
from conformance.core.errors import UsageError
from conformance.core.files import read_bytes
from conformance.core.key import KEY
from conformance.core.options import RunOptions
from conformance.core.outcomes import TestOutcome

JOURNAL = "outcomes.jsonl"
#: What separates a line's data from its signature, which is the last value.
_SIGNED = ', "signature": "'


class Journal:
    """A file of signed JSON lines that is only appended to."""

    def __init__(self, path: Path, file: TextIO, key: bytes, outcomes: list[TestOutcome]) -> None:
        self.path = path
        self.file = file
        self.key = key
        self.outcomes = outcomes
        self.lost = ""

    @classmethod
    def begin(cls, folder: Path, options: RunOptions, key: bytes, launcher: str = "") -> Journal:
        """Begin a journal; the launcher is recorded, so that its next attempt can resume the run.

        Raises:
            UsageError: the file cannot be written.
        """
        path = folder / JOURNAL
        own = secrets.token_hex(16)  # a line is valid in this journal only
        head = {"asked": options.to_json(), "clauses_sha256": _digest(options.spec), "launcher": launcher, "own": own}
        try:
            path.unlink(missing_ok=True)
            journal = cls(path, path.open("x", encoding="utf-8"), _key_of(own, key), [])
            journal._write(signed(json.dumps(head), key))
        except OSError as error:
            raise UsageError(f"cannot write {path}: {error.strerror}") from None
        return journal

    @classmethod
    def resume(cls, folder: Path, key: bytes) -> tuple[Journal, RunOptions]:
        """Open the journal of an earlier run; return it with that run's options.

        Raises:
            UsageError: there is no such run, its clauses were others, or another user began it.
        """
        path, refused = folder / JOURNAL, f"--resume {str(folder)!r}"
        if not path.exists():
            raise UsageError(f"{refused}: it has no {JOURNAL}; give the folder of a run with --report")
        text = read_bytes(path).decode("utf-8", "replace")
        first, _, rest = text.partition("\n")
        head = _parsed(first) or {}
        if not isinstance(head.get("asked"), dict):
            raise UsageError(f"{refused}: {JOURNAL} is not the journal of a run; start anew")
        if not _is_signed(first, key):
            raise UsageError(
                f"{refused}: {JOURNAL} is not signed with your key: somebody else has written or changed it, or {KEY} "
                "was another one; start anew"
            )
        if head.get("clauses_sha256") != _digest(head["asked"].get("spec")):
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
        own = _key_of(str(head.get("own", "")), key)
        lines = (_parsed(line) for line in rest.splitlines() if _is_signed(line, own))
        outcomes = [outcome for outcome in map(_outcome, filter(None, lines)) if outcome is not None]
        return cls(path, file, own, outcomes), asked

    def note(self, outcome: TestOutcome) -> None:
        """Append an outcome. A full disk does not end the run."""
        if not self.lost:
            try:
                self._write(signed(outcome.to_text(), self.key))
            except OSError as error:
                self.lost = f"{self.path}: {error.strerror}; this run cannot be resumed from here"

    def close(self) -> None:
        """Close the file."""
        with contextlib.suppress(OSError):
            self.file.close()

    def _write(self, line: str) -> None:
        self.file.write(line + "\n")
        self.file.flush()


def begun_by(folder: Path, launcher: str, key: bytes) -> bool:
    """Tell whether an earlier attempt of the same launcher began the run in this folder."""
    try:
        first = read_bytes(folder / JOURNAL).partition(b"\n")[0].decode("utf-8", "replace")
    except UsageError:
        return False
    head = _parsed(first) or {}
    return bool(launcher) and head.get("launcher") == launcher and _is_signed(first, key)


def _key_of(own: str, key: bytes) -> bytes:
    """Derive the key of one journal."""
    return hmac.digest(key, f"journal\0{own}".encode(), "sha256")


def signed(line: str, key: bytes) -> str:
    """Add the signature to a JSON object's text, as its last value."""
    return f'{line[:-1]}{_SIGNED}{_signature(line, key)}"}}'


def _is_signed(line: str, key: bytes) -> bool:
    text, _, given = line.rpartition(_SIGNED)
    return hmac.compare_digest(given.encode(), f'{_signature(text + "}", key)}"}}'.encode())


def _signature(line: str, key: bytes) -> str:
    return hmac.digest(key, b"journal\0" + line.encode("utf-8", "surrogatepass"), "sha256").hex()


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


def _digest(spec: object) -> str:
    """Return the digest of the clauses of a run; a spec that is no longer installed has none."""
    try:
        return clauses.digest(*filter(None, [spec] if isinstance(spec, str) else []))
    except UsageError:
        return ""
