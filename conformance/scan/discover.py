"""Find every Function subclass in a set of files: through aliases, other modules, and inside functions."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from conformance.scan.classes import FunctionClass
from conformance.scan.model import Skipped
from conformance.scan.names import BASES, dotted
from conformance.scan.source import Module, Text, parse

#: What a base class is: one that was read, PyTorch's own (a text), or unknown.
Meaning = FunctionClass | str | None


class Discovery:
    """All modules that may hold Functions, and what was found in them."""

    def __init__(self, texts: Iterable[Text], around: Iterable[Text] = ()) -> None:
        """Take the files to search, ``texts``, and those whose classes they may inherit from, ``around``."""
        self._searched = {text.file: text for text in texts}
        self._texts = {**{text.file: text for text in around}, **self._searched}
        self._files = {text.module: text.file for text in self._texts.values()}
        self._modules: dict[str, Module | None] = {}
        self._classes: dict[str, list[tuple[str, ast.ClassDef]]] = {}
        self._by_name: dict[tuple[str, str], list[tuple[str, ast.ClassDef]]] = {}
        self._known: dict[tuple[str, str], FunctionClass | None] = {}
        self.skipped: list[Skipped] = []

    def functions(self) -> list[FunctionClass]:
        """Return every Function subclass, by file and line."""
        waiting = [file for file, text in self._texts.items() if text.may_name_function]
        done: set[str] = set()
        found: list[FunctionClass] = []
        while waiting:
            done.update(waiting)
            new = [function for file in waiting for function in self._whole(file)]
            found += new
            names = {function.node.name.encode() for function in new}
            waiting = [file for file, text in self._texts.items() if file not in done and text.bases & names]
        found = [function for function in found if function.module.file in self._searched]
        return sorted(found, key=lambda function: (function.module.file, function.node.lineno))

    def module_named(self, name: str) -> Module | None:
        """Return the parsed module that an import of this name would find, if it is one of these files."""
        file = self._file(name)
        return self._module(file) if file else None

    def _whole(self, file: str) -> list[FunctionClass]:
        """Return the Functions of a file; none, and a line that says so, if its inheritance is too deep."""
        try:
            return list(self._in_file(file))
        except RecursionError:
            self.skipped.append(Skipped(file, "its classes inherit too deeply to be followed"))
            return []

    def _in_file(self, file: str) -> Iterator[FunctionClass]:
        module = self._module(file)
        if module is None:
            return
        for qualname, node in self._classes[file]:
            if f"{module.name}.{qualname}" in BASES:
                continue  # PyTorch's own
            function = self._judge(module, qualname, node)
            if function is not None:
                yield function

    def _module(self, file: str) -> Module | None:
        if file not in self._modules:
            self._modules[file] = None
            result = parse(self._texts[file])
            if isinstance(result, Skipped):
                if file in self._searched:
                    self.skipped.append(result)
            else:
                self._modules[file] = result
                self._classes[file] = list(_classes(result.tree.body, ""))
                for qualname, node in self._classes[file]:
                    self._by_name.setdefault((file, node.name), []).append((qualname, node))
        return self._modules[file]

    def _judge(self, module: Module, qualname: str, node: ast.ClassDef) -> FunctionClass | None:
        key = (module.file, f"{qualname}:{node.lineno}")
        if key in self._known:
            return self._known[key]
        self._known[key] = None  # a class that inherits from itself ends here
        bases: list[FunctionClass] = []
        is_function, complete = False, True
        for base in node.bases:
            meaning = self._base(module, qualname, node, base)
            if isinstance(meaning, FunctionClass):
                bases.append(meaning)
            is_function = is_function or meaning is not None
            complete = complete and (meaning is not None)
        if is_function:
            complete = complete and all(base.complete for base in bases)
            self._known[key] = FunctionClass(module, node, qualname, tuple(bases), complete)
        return self._known[key]

    def _base(self, module: Module, qualname: str, node: ast.ClassDef, base: ast.expr) -> Meaning:
        """Resolve a base: PyTorch's (a text), a Function of this package, or None."""
        if isinstance(base, ast.Subscript):  # Base[T]
            base = base.value
        text = dotted(base)
        if text is None:
            return None
        if not module.names.is_imported(text.partition(".")[0]):
            return self._local(module, qualname, node, text) or self._by_star(module, text)
        meanings = list(module.names.meanings(base))
        if any(meaning in BASES for meaning in meanings):
            return "torch"
        return _first(self._elsewhere(meaning) for meaning in meanings)

    def _local(self, module: Module, qualname: str, node: ast.ClassDef, text: str) -> Meaning:
        if f"{module.name}.{text}" in BASES:
            return "torch"
        scope = qualname.rpartition(".")[0]
        alike = self._by_name.get((module.file, text.rpartition(".")[2]), [])
        before = (pair for pair in reversed(alike) if pair[1].lineno < node.lineno and _visible(pair[0], text, scope))
        nearest = next(before, None)
        return self._judge(module, *nearest) if nearest else None

    def _by_star(self, module: Module, text: str) -> Meaning:
        """Resolve a name that its file does not bind, through ``from module import *``."""
        if module.names.stars and text in BASES:
            return "torch"  # torch itself came along
        return _first(self._elsewhere(f"{star}.{text}") for star in module.names.stars)

    def _elsewhere(self, full: str, depth: int = 5) -> Meaning:
        """Find a class by its full name, through modules that only re-export it."""
        if full in BASES:
            return "torch"
        module_name, _, name = full.rpartition(".")
        file = self._file(module_name)
        module = self._module(file) if file and depth else None
        if file is None or module is None:
            return None
        for qualname, node in self._by_name.get((file, name), []):
            if qualname == name:
                return self._judge(module, qualname, node)
        if not module.names.is_imported(name):
            return None
        passed_on = module.names.meanings(ast.Name(name))
        return _first(self._elsewhere(other, depth - 1) for other in passed_on)

    def _file(self, module: str) -> str | None:
        if module in self._files:
            return self._files[module]
        # A folder may be scanned by its path, so that its modules seem to start further in.
        parts = module.split(".")
        if parts[0] == "torch":
            return None
        shorter = (".".join(parts[first:]) for first in range(1, len(parts) - 1))
        return next((self._files[name] for name in shorter if name in self._files), None)


def _first(meanings: Iterable[Meaning]) -> Meaning:
    return next((meaning for meaning in meanings if meaning is not None), None)


def _visible(qualname: str, text: str, scope: str) -> bool:
    """Tell whether ``text``, used inside ``scope``, can name a class of the same file."""
    outer = qualname.removesuffix(text).rstrip(".")
    return qualname.endswith(text) and (not outer or scope == outer or scope.startswith(f"{outer}."))


def _classes(body: list[ast.stmt], prefix: str) -> Iterator[tuple[str, ast.ClassDef]]:
    """Yield every class statement with its qualified name, in order, also inside compound statements."""
    for statement in body:
        if isinstance(statement, ast.ClassDef):
            qualname = prefix + statement.name
            yield qualname, statement
            yield from _classes(statement.body, f"{qualname}.")
        elif isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _classes(statement.body, f"{prefix}{statement.name}.<locals>.")
        else:
            for block in ("body", "orelse", "finalbody"):
                yield from _classes(getattr(statement, block, []), prefix)
            for handler in (*getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
                yield from _classes(handler.body, prefix)
