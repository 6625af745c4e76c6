"""One Function subclass as its source shows it: its members, and what it inherits within the package."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from conformance.scan.source import Module

#: What the contract knows of a class.
MEMBERS = ("forward", "setup_context", "backward", "vjp", "jvp", "vmap", "generate_vmap_rule")

#: Decorators that leave arguments and results as they are.
_HARMLESS_TEXT = """
    staticmethod classmethod once_differentiable custom_fwd custom_bwd no_grad enable_grad override
    disable ignore unused inference_mode allow_in_graph _disable_dynamo nonstrict_trace abstractmethod
    record_function annotate set_grad_enabled set_module autocast script
"""
HARMLESS = frozenset(_HARMLESS_TEXT.split())

Method = ast.FunctionDef


@dataclass(frozen=True)
class Parameters:
    """The parameters of a method after its ctx (or all, for a separate forward)."""

    ctx: str
    names: tuple[str, ...]
    required: int
    rest: str


@dataclass(frozen=True, eq=False)
class FunctionClass:
    """A class, where it stands, and its bases of the same package (nearest first)."""

    module: Module
    node: ast.ClassDef
    qualname: str
    bases: tuple[FunctionClass, ...]
    #: Whether every base is known: PyTorch's Function, or a class that was read.
    complete: bool

    @property
    def members(self) -> tuple[str, ...]:
        """Return the members of the contract that the class itself binds."""
        bound = set(self.bound)
        return tuple(name for name in MEMBERS if name in bound)

    @cached_property
    def bound(self) -> dict[str, ast.stmt]:
        """Return the names that the class body binds; the last binding counts."""
        found: dict[str, ast.stmt] = {}
        for statement in self.node.body:
            match statement:
                case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                    found[name] = statement
                case ast.Assign(targets=targets):
                    found.update({target.id: statement for target in targets if isinstance(target, ast.Name)})
                case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr()):
                    found[name] = statement
        return found

    def own(self, name: str) -> Method | None:
        """Return the class's own method of that name, if it is a plain function."""
        statement = self.bound.get(name)
        return statement if isinstance(statement, ast.FunctionDef) else None

    def lookup(self, name: str) -> tuple[FunctionClass, ast.stmt] | None:
        """Return what Python would find for a member before PyTorch's own; None also if that is unclear."""
        return self._found.get(name)

    @cached_property
    def _found(self) -> Mapping[str, tuple[FunctionClass, ast.stmt]]:
        """Return the members by name, own and inherited. The bases' are cached, so no class is visited twice."""
        found: dict[str, tuple[FunctionClass, ast.stmt]] = {}
        for name in MEMBERS:
            own = self.bound.get(name)
            if own is None:
                inherited = (base.lookup(name) for base in self.bases)
                first = next(filter(None, inherited), None)
            else:
                first = None if _is_pytorchs(own, name) else (self, own)
            if first is not None:
                found[name] = first
        return found

    def __post_init__(self) -> None:
        """Look up the members, after those of the bases: a long line of classes would recurse too deep."""
        _ = self._found

    def method(self, name: str) -> Method | None:
        """Do what :meth:`lookup` does, for plain functions only."""
        found = self.lookup(name)
        return found[1] if found and isinstance(found[1], ast.FunctionDef) else None

    @property
    def separate(self) -> bool:
        """Tell whether the class is in the separate form, as far as is known."""
        return self.lookup("setup_context") is not None

    def takes(self, method: Method) -> Parameters | None:
        """Return a method's parameters after ctx; None if the contract does not allow the signature."""
        arguments = method.args
        names = [argument.arg for argument in (*arguments.posonlyargs, *arguments.args)]
        required = len(names) - len(arguments.defaults)
        dropped = int("classmethod" in self.decorators(method))
        without_ctx = method.name == "forward" and self.separate
        if not without_ctx and len(names) == dropped and arguments.vararg is not None:
            return None  # forward(*args): the ctx is in there
        if len(names) < dropped + (not without_ctx):
            return None
        ctx = "" if without_ctx else names[dropped]
        first = dropped + (not without_ctx)
        rest = arguments.vararg.arg if arguments.vararg else ""
        return Parameters(ctx, tuple(names[first:]), max(0, required - first), rest)

    def decorators(self, method: Method) -> set[str]:
        """Return the last words of a method's decorators."""
        nodes = [node.func if isinstance(node, ast.Call) else node for node in method.decorator_list]
        return {self.module.names.full(node).rpartition(".")[2] for node in nodes}

    def strange_decorators(self, method: Method) -> bool:
        """Tell whether a decorator may change what the method takes or returns."""
        return not self.decorators(method) <= HARMLESS


def is_stub(method: Method) -> bool:
    """Tell whether a method only raises, or is empty: a placeholder in a base class."""
    body = [node for node in method.body if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))]
    return all(isinstance(node, ast.Raise | ast.Pass) for node in body)


def _is_pytorchs(statement: ast.stmt, name: str) -> bool:
    """Tell whether a class restores PyTorch's own member, as in ``vmap = torch.autograd.Function.vmap``."""
    match statement:
        case ast.Assign(
            value=ast.Attribute(value=ast.Name(id="Function") | ast.Attribute(attr="Function"), attr=taken)
        ):
            return taken == name
    return False
