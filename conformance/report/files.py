"""Write a report's files and read a report back; each file appears whole or not at all."""

from __future__ import annotations

import json
import math
import os
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from conformance.core.errors import UsageError
from conformance.core.files import NO_MEMORY, Unreadable, read_text, why
from conformance.core.garbage import collector_paused
from conformance.report.badge import badge
from conformance.report.html import page
from conformance.report.junit import junit
from conformance.report.model import Report

#: The files that ``--report DIR`` writes, and the function that makes each.
FILES: dict[str, Callable[[Report], str]] = {
    "report.json": lambda report: to_text(report),
    "report.html": page,
    "junit.xml": junit,
    "badge.svg": badge,
}


def to_text(report: Report) -> str:
    """Return report.json as ASCII text, which any reader accepts."""
    return json.dumps(report.to_json(), indent=1, allow_nan=False) + "\n"


def prepare(folder: Path | str) -> Path:
    """Make sure, before hours of work, that the folder can be written to.

    Raises:
        UsageError: it cannot; the message says why.
    """
    folder = Path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as probe:
            probe.write(b"0" * 4096)
    except FileExistsError:
        raise UsageError(f"cannot write to {folder}: it is a file; give a folder") from None
    except (OSError, ValueError) as problem:
        raise UsageError(f"cannot write to {folder}: {why(problem)}") from None
    return folder


def prepare_file(path: Path) -> None:
    """Make sure, before hours of work, that :func:`write` can write a file.

    Raises:
        UsageError: it cannot; the message says why.
    """
    try:
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}-") as probe:
            probe.write(b"0" * 4096)
    except (OSError, ValueError) as problem:
        raise UsageError(f"cannot write {path}: {why(problem)}") from None


def write_all(report: Report, folder: Path | str) -> tuple[Path, ...]:
    """Write report.json, report.html, junit.xml and badge.svg; report.json comes first.

    Raises:
        UsageError: a file could not be written; those before it are there.
    """
    folder = prepare(folder)
    for name in FILES:
        for left in folder.glob(f".{name}-????????"):  # left by a run that was killed while it wrote
            left.unlink(missing_ok=True)
    return tuple(write(folder / name, render(report)) for name, render in FILES.items())


def write(path: Path, text: str) -> Path:
    """Write one file through a temporary one, so that nobody ever sees half of it.

    Raises:
        UsageError: it could not be written.
    """
    temporary: str | None = None
    try:
        number, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
        with os.fdopen(number, "w", encoding="utf-8", errors="backslashreplace", newline="\n") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(temporary, 0o666 & ~mask)
        os.replace(temporary, path)
        temporary = None
    except OSError as problem:
        raise UsageError(f"cannot write {path}: {why(problem)}") from None
    finally:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)
    return path


def load(path: Path | str) -> Any:
    """Read the JSON value in a file.

    Raises:
        UsageError: the file cannot be read, or is not standard JSON.
    """
    try:
        return json.loads(
            read_text(path),
            parse_constant=_refuse,
            parse_float=_finite,
            object_pairs_hook=_without_duplicates,
        )
    except UsageError:
        raise
    except json.JSONDecodeError as problem:
        raise UsageError(f"{path}, line {problem.lineno}: not JSON: {problem.msg}") from None
    except (ValueError, RecursionError) as problem:
        raise UsageError(f"cannot read {path}: {why(problem)}") from None
    except MemoryError:
        raise Unreadable(path, NO_MEMORY) from None


def read(path: Path | str) -> Report:
    """Read a report from its report.json.

    Raises:
        UsageError: the file cannot be read, or is not a report of this schema.
    """
    try:
        # A report has no reference cycles, and searching for them took half of the time.
        with collector_paused():
            return Report.from_json(load(path))
    except UsageError:
        raise
    except ValueError as problem:
        raise UsageError(f"{path} is not a report of this suite: {problem}") from None


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"{text} is too large for a number")
    return number


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(key for key, times in Counter(key for key, _ in pairs).items() if times > 1)
        raise ValueError(f"an object has the key {twice[:100]!r} twice")
    return found
