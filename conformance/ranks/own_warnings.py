"""Tell of the warnings of a user's own test: each rank notes them, and pytest's process warns again, once for all."""

from __future__ import annotations

import contextlib
import json
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

#: How many different warnings of a test a rank notes.
MOST = 100


class Warned(NamedTuple):
    """A warning: its text, its class by module and name, and the line that it is about."""

    text: str
    module: str
    name: str
    file: str
    line: int


@contextlib.contextmanager
def noted(note: Callable[[Warned], object]) -> Iterator[None]:
    """Note the warnings of the block, each once. What is to be ignored or to raise, pytest's process decides."""
    seen: set[Warned] = set()

    def shown(message: Warning | str, category: type[Warning], filename: str, lineno: int, *_: Any, **__: Any) -> None:
        told = Warned(str(message), category.__module__, category.__qualname__, filename, lineno)
        if told not in seen and len(seen) < MOST:
            seen.add(told)
            note(told)

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = shown
        yield


def into(file: Path) -> Callable[[Warned], object]:
    """Return what appends warnings to a file at once: they outlive a rank that is killed."""

    def note(told: Warned) -> None:
        with file.open("a", encoding="utf-8") as lines:
            lines.write(json.dumps(told) + "\n")

    return note


def read(folder: Path, size: int) -> dict[int, list[Warned]]:
    """Read what each rank has noted in its file of the folder; half a line of a rank that was killed is left out."""
    found: dict[int, list[Warned]] = {}
    for rank in range(size):
        file = folder / str(rank)
        lines = file.read_text("utf-8").splitlines(keepends=True) if file.exists() else []
        found[rank] = [Warned(*json.loads(line)) for line in lines if line.endswith("\n")]
    return found


def warn_again(noted_by: Mapping[int, Iterable[Warned]]) -> None:
    """Warn in this process of what ranks have noted, each once, with the ranks.

    Raises:
        Warning: the filters of this process make an error of it.
    """
    ranks: dict[Warned, dict[int, None]] = {}  # a test that failed may have run twice
    for rank, each in noted_by.items():
        for told in each:
            ranks.setdefault(told, {})[rank] = None
    for told, on in ranks.items():
        text = f"{told.text} (on rank{'s' * (len(on) > 1)} {', '.join(map(str, on))} of {len(noted_by)})"
        try:
            warnings.warn_explicit(text, _class_of(told), told.file, told.line, _module_of(told.file))
        except Warning as error:
            error.add_note(f"{told.file}:{told.line}")
            raise


def _class_of(told: Warned) -> type[Warning]:
    """Return the class of a warning, or UserWarning if this process has not imported it."""
    found = getattr(sys.modules.get(told.module), told.name, None)
    return found if isinstance(found, type) and issubclass(found, Warning) else UserWarning


def _module_of(file: str) -> str | None:
    """Name the module of a file, which filters go by; None if this process has not imported it."""
    loaded = ((name, getattr(module, "__dict__", {})) for name, module in list(sys.modules.items()))
    return next((name for name, there in loaded if there.get("__file__") == file), None)
