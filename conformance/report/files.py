"""Write a report's files and read a report back; each file appears whole or not at all."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

from conformance.core.errors import UsageError
from conformance.report.badge import badge
from conformance.report.html import page
from conformance.report.junit import junit
from conformance.report.model import Report

#: What ``--report DIR`` leaves in the folder, and what makes each.
FILES: dict[str, Callable[[Report], str]] = {
    "report.json": lambda report: to_text(report),
    "report.html": page,
    "junit.xml": junit,
    "badge.svg": badge,
}


def schema() -> dict[str, Any]:
    """The JSON Schema of report.json."""
    data: dict[str, Any] = json.loads(files("conformance.report").joinpath("schema.json").read_text("utf-8"))
    return data


def to_text(report: Report) -> str:
    """report.json as text: ASCII, so that any reader gets along with it."""
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
    except (OSError, ValueError) as problem:
        raise UsageError(f"cannot write reports to {folder}: {_why(problem)}") from None
    return folder


def write_all(report: Report, folder: Path | str) -> tuple[Path, ...]:
    """Write report.json, report.html, junit.xml and badge.svg; report.json comes first.

    Raises:
        UsageError: a file could not be written; those before it are there.
    """
    folder = prepare(folder)
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
        raise UsageError(f"cannot write {path}: {_why(problem)}") from None
    finally:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)
    return path


def load(path: Path | str) -> Any:
    """The JSON value in a file.

    Raises:
        UsageError: the file cannot be read, or holds no JSON.
    """
    try:
        return json.loads(Path(path).read_text("utf-8"), parse_constant=_refuse)
    except OSError as problem:
        raise UsageError(f"cannot read {path}: {_why(problem)}") from None
    except UnicodeDecodeError:
        raise UsageError(f"cannot read {path}: it is no UTF-8 text") from None
    except json.JSONDecodeError as problem:
        raise UsageError(f"{path}, line {problem.lineno}: no JSON: {problem.msg}") from None
    except (ValueError, RecursionError) as problem:
        raise UsageError(f"cannot read {path}: {_why(problem)}") from None


def read(path: Path | str) -> Report:
    """A report from its report.json.

    Raises:
        UsageError: the file cannot be read, or does not follow the schema.
    """
    data = load(path)
    for problem in schema_problems(data):
        raise UsageError(f"{path} is no report of this suite: {problem}")
    return Report.from_json(data)


def schema_problems(data: Any) -> list[str]:
    """Where a JSON value does not follow the schema, most telling first; empty when it does."""
    from jsonschema import Draft202012Validator

    errors = sorted(Draft202012Validator(schema()).iter_errors(data), key=lambda error: len(error.path))
    return [f"{_place(error.absolute_path)}: {error.message[:200]}" for error in errors]


def _place(path: Any) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).lstrip(".") or "top"


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is no JSON number")


def _why(problem: BaseException) -> str:
    return getattr(problem, "strerror", None) or str(problem).splitlines()[0][:200]
