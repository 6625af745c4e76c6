"""Resolve the names of one module, as far as its imports and plain assignments say."""

from __future__ import annotations

import ast
from collections.abc import Iterator

#: PyTorch's own classes that a Function derives from, by each of their full names.
BASES = frozenset(
    f"{module}.{name}"
    for module in ("torch.autograd", "torch.autograd.function")
    for name in ("Function", "InplaceFunction", "NestedIOFunction", "_SingleLevelFunction")
)

#: A name with more meanings than this was made up to keep the scan busy.
MOST = 16


class Names:
    """Turns the names used in one module into full dotted names.

    >>> names = Names(ast.parse("import torch.distributed as dist"), "pkg.mod", False)
    >>> names.full(ast.parse("dist.all_reduce", mode="eval").body)
    'torch.distributed.all_reduce'
    """

    def __init__(self, tree: ast.Module, module: str, is_package: bool) -> None:
        self.module = module
        self._package = module if is_package else module.rpartition(".")[0]
        self._aliases: dict[str, list[str]] = {}
        #: The modules imported by ``*``.
        self.stars: list[str] = []
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                self._import(node)
            elif isinstance(node, ast.ImportFrom):
                self._import_from(node)
        for statement in top_level(tree.body):
            self._assignment(statement)

    def meanings(self, node: ast.expr) -> Iterator[str]:
        """Yield the full names that a dotted expression may stand for, the likeliest first."""
        text = dotted(node)
        if text is None:
            return
        head, _, rest = text.partition(".")
        for full in self._aliases.get(head, [head]):
            yield f"{full}.{rest}" if rest else full

    def full(self, node: ast.expr) -> str:
        """Return the likeliest full name, PyTorch's if there is a choice; empty if this is not a dotted name."""
        found = list(self.meanings(node))
        return next((name for name in found if name.startswith("torch.")), found[0] if found else "")

    def is_imported(self, name: str) -> bool:
        """Tell whether the module binds ``name`` by an import or a plain alias."""
        return name in self._aliases

    def _bind(self, name: str, full: str) -> None:
        known = self._aliases.setdefault(name, [])
        if full not in known and len(known) < MOST:
            known.append(full)

    def _import(self, node: ast.Import) -> None:
        for alias in node.names:
            if alias.asname:
                self._bind(alias.asname, alias.name)
            else:
                top = alias.name.partition(".")[0]
                self._bind(top, top)

    def _import_from(self, node: ast.ImportFrom) -> None:
        source = node.module or ""
        if node.level:
            parts = self._package.split(".") if self._package else []
            parts = parts[: len(parts) - (node.level - 1)]
            source = ".".join([*parts, source] if source else parts)
        for alias in node.names:
            if alias.name == "*":
                self.stars.append(source)
            else:
                self._bind(alias.asname or alias.name, f"{source}.{alias.name}" if source else alias.name)

    def _assignment(self, statement: ast.stmt) -> None:
        if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
            return
        target, text = statement.targets[0], dotted(statement.value)
        if isinstance(target, ast.Name) and text is not None and text.partition(".")[0] != target.id:
            for full in list(self.meanings(statement.value)):
                self._bind(target.id, full)


def top_level(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements that run when a module is imported, also those in branches."""
    for node in body:
        yield node
        if isinstance(node, ast.If | ast.Try | ast.With):
            for block in ("body", "orelse", "finalbody"):
                yield from top_level(getattr(node, block, []))
            for handler in getattr(node, "handlers", []):
                yield from top_level(handler.body)


def dotted(node: ast.expr) -> str | None:
    """Return the text of a plain dotted name, and None for anything else.

    >>> dotted(ast.parse("a.b.c", mode="eval").body)
    'a.b.c'
    """
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return None
    return ".".join([node.id, *reversed(parts)])
