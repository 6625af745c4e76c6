"""Put the pieces of a script together: one file that needs only torch and the subject."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

PIECES = Path(__file__).parent / "pieces"
_PACKAGE = "conformance.reproduce.pieces."
#: The current directory comes first on the path, as the suite has it.
_PATH = "sys.path.insert(0, os.getcwd())"


def assembled(root: str, given: Mapping[str, str]) -> str:
    """Return a script, without its docstring.

    Args:
        root: the piece whose last lines run the check.
        given: source that takes the place of the pieces of these names.
    """
    imports: set[str] = {"import os", "import sys"}
    bodies: list[str] = []
    for name in _in_order(root):
        if name in given:
            bodies.append(given[name].strip("\n"))
        else:
            own, body = _parts(PIECES / f"{name}.py")
            imports |= own
            bodies.append(body)
    head = sorted(imports, key=lambda line: (line.startswith("from "), line))
    return "\n\n\n".join(["\n".join(["from __future__ import annotations", "", *head, "", _PATH]), *bodies]) + "\n"


def _in_order(name: str, seen: set[str] | None = None) -> Iterator[str]:
    """Yield the pieces that a piece needs, each once, before those that need it."""
    seen = set() if seen is None else seen
    if name in seen:
        return
    seen.add(name)
    for node in ast.parse((PIECES / f"{name}.py").read_text("utf-8")).body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(_PACKAGE):
            yield from _in_order(str(node.module).removeprefix(_PACKAGE), seen)
    yield name


def _parts(file: Path) -> tuple[set[str], str]:
    """Return the imports of a piece, without those of other pieces, and the code below them."""
    text = file.read_text("utf-8")
    nodes = [node for node in ast.parse(text).body if isinstance(node, ast.Import | ast.ImportFrom)]
    imports = {ast.unparse(node) for node in nodes if not _is_inside(node)}
    last = max(node.end_lineno or 0 for node in nodes)
    return imports, "\n".join(text.splitlines()[last:]).strip("\n")


def _is_inside(node: ast.Import | ast.ImportFrom) -> bool:
    module = node.module or "" if isinstance(node, ast.ImportFrom) else ""
    return module == "__future__" or module.startswith(_PACKAGE)
