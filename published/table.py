"""The subjects of every adapter, read from its source: nothing of a package is imported to know what is tested."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from published.packages import PACKAGES, Package


@dataclass(frozen=True)
class Entry:
    """One subject of the table."""

    package: Package
    name: str
    target: str
    spec: str
    types: str = ""

    @property
    def reference(self) -> str:
        """What ``conformance run`` calls it."""
        return f"published.{self.package.adapter}:{self.name}"

    @property
    def shown(self) -> str:
        """The class or function as its package calls it."""
        return self.target.partition(":")[2]


def adapter_file(package: Package) -> Path:
    """The source of a package's adapter."""
    return Path(__file__).with_name(f"{package.adapter}.py")


def entries(packages: tuple[Package, ...] = PACKAGES) -> list[Entry]:
    """All subjects, in the order of the table."""
    return [entry for package in packages for entry in _of(package)]


def _of(package: Package) -> Iterator[Entry]:
    for statement in ast.parse(adapter_file(package).read_text(encoding="utf-8")).body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=ast.Name(id="Subject")) as call):
                named = {word.arg: word.value for word in call.keywords}
                spec = named.get("spec", ast.Constant("Function"))
                yield Entry(package, name, ast.literal_eval(call.args[0]), ast.literal_eval(spec))
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=ast.Name(id="collective")) as call):
                target, types = map(ast.literal_eval, call.args[:2])
                yield Entry(package, name, target, "Collective", types)
