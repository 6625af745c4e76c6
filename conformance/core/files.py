"""Read a file that the user named: a regular file of bounded size. Any problem is reported in one line."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from conformance.core.errors import UsageError

#: No report, journal or list of expectations is larger: those of 300 subjects take about a third (bytes).
LARGEST = 512_000_000
NO_MEMORY = "it does not fit into memory"


class Unreadable(UsageError):
    """A file that cannot be read; ``reason`` says why, without its name."""

    def __init__(self, path: Path | str, reason: str) -> None:
        """Name the file and the reason in one line."""
        super().__init__(f"cannot read {path}: {reason}")
        self.reason = reason


def read_bytes(path: Path | str, largest: int = LARGEST, owned: bool = False) -> bytes:
    """Return the bytes of a file.

    Args:
        path: the file.
        largest: how many bytes it may have.
        owned: whether it must belong to this user, and be closed to all others.

    Raises:
        Unreadable: it cannot be read, is not a regular file, or is larger.
    """
    try:
        # Without O_NONBLOCK, opening a pipe would wait for a writer.
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            found = os.fstat(file.fileno())
            wrong = _wrong(found, largest, owned)
            data = b"" if wrong else file.read(largest + 1)
    except (OSError, ValueError) as problem:
        raise Unreadable(path, why(problem)) from None
    except MemoryError:
        raise Unreadable(path, NO_MEMORY) from None
    wrong = wrong or (_too_large(largest) if len(data) > largest else "")
    if wrong:
        raise Unreadable(path, wrong)
    return data


def _wrong(found: os.stat_result, largest: int, owned: bool) -> str:
    """Say why an open file must not be read; empty if it may be."""
    if not stat.S_ISREG(found.st_mode):
        return "it is not a file"
    if owned and found.st_uid != os.geteuid():
        return f"it belongs to another user (uid {found.st_uid})"
    if owned and found.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        return "others may read it; say `chmod 600` to it"
    return _too_large(largest) if found.st_size > largest else ""


def _too_large(largest: int) -> str:
    return f"it is larger than {largest / 1_000_000:g} MB"


def read_text(path: Path | str, largest: int = LARGEST) -> str:
    """Read the UTF-8 text in a file.

    Raises:
        Unreadable: it cannot be read, is not a regular file, is larger, or is not text.
    """
    try:
        return read_bytes(path, largest).decode("utf-8")
    except UnicodeDecodeError:
        raise Unreadable(path, "it is not UTF-8 text") from None
    except MemoryError:
        raise Unreadable(path, NO_MEMORY) from None


def why(problem: BaseException) -> str:
    """Say in a few words what went wrong with a file."""
    return getattr(problem, "strerror", None) or str(problem).splitlines()[0][:200]
