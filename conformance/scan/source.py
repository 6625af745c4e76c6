"""Parse files, but only those that may contain a Function."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from conformance.core.files import Unreadable, read_bytes
from conformance.scan.model import Skipped
from conformance.scan.names import Names
from conformance.scan.target import Place, module_name

#: No hand-written module is larger; parsing takes about a hundred times this much memory.
LARGEST = 4_000_000
UNREADABLE = "not Python that this interpreter reads"
UTF16 = (b"\xff\xfe", b"\xfe\xff")
CLASS = re.compile(rb"^[ \t]*class\s+[^\s(:]+\s*\(([^):]*)", re.MULTILINE)
# No part of these repeats what another part of the same pattern may match: each takes time in proportion to the file.
RENAMED = re.compile(rb"Function\s+as\s+(\w+)")
ASSIGNED = re.compile(rb"^[ \t]*(\w+)[ \t]*=([^\n]*)", re.MULTILINE)
AUTOGRAD = re.compile(rb"\bautograd\b")
WORD = re.compile(rb"[^\s,.=()\[\]]+")


@dataclass(frozen=True)
class Text:
    """A file as bytes (kept if it has classes with bases), and the words of those bases."""

    path: Path
    file: str
    module: str
    data: bytes
    bases: frozenset[bytes]

    @property
    def may_name_function(self) -> bool:
        """Tell whether PyTorch's Function may be a base here, under its own name or an alias."""
        if any(base.endswith(b"Function") for base in self.bases):
            return True
        return not self.bases.isdisjoint(self._new_names())

    def _new_names(self) -> Iterator[bytes]:
        """Yield the names that an import or an assignment may give to PyTorch's Function."""
        yield from RENAMED.findall(self.data)
        for name, value in ASSIGNED.findall(self.data):
            found = AUTOGRAD.search(value)
            if found and b"Function" in value[found.end() :]:
                yield name


@dataclass(frozen=True)
class Module:
    """A parsed file."""

    file: str
    name: str
    tree: ast.Module
    names: Names


def read(place: Place, paths: Iterable[Path]) -> Iterator[Text | Skipped]:
    """Yield each of these files, in order, or why it was skipped."""
    for path in paths:
        file = place.named(path)
        try:
            data = read_bytes(path, LARGEST)
        except Unreadable as error:
            yield Skipped(file, f"cannot be read: {error.reason}")
            continue
        if data.startswith(UTF16):
            yield Skipped(file, "not UTF-8 text")
            continue
        bases = frozenset(word for match in CLASS.finditer(data) for word in WORD.findall(match[1]))
        yield Text(path, file, module_name(path), data if bases else b"", bases)


def refusal(error: OSError) -> str:
    """Say why a file or folder that cannot be read was skipped."""
    return f"cannot be read: {error.strerror or error}"


def parse(text: Text) -> Module | Skipped:
    """Parse a file, or say why it cannot be."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # old escapes in strings of others
            tree = ast.parse(text.data or read_bytes(text.path, LARGEST))
    except SyntaxError as error:
        return Skipped(text.file, f"{UNREADABLE}: {_one_line(error.msg)} (line {error.lineno or 1})")
    except (ValueError, LookupError) as error:
        return Skipped(text.file, f"{UNREADABLE}: {_one_line(str(error))}")
    except (RecursionError, MemoryError):
        return Skipped(text.file, "nested too deeply to be read")
    return Module(text.file, text.module, tree, Names(tree, text.module, text.path.name == "__init__.py"))


def _one_line(message: str) -> str:
    return " ".join(message.split())
