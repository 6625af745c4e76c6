"""Evaluate calls: their results, and what they change in place."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass, replace

from conformance.scan import containers
from conformance.scan import vocabulary as known
from conformance.scan.model import weakest
from conformance.scan.values import (
    PLAIN,
    Kind,
    Value,
    cut_off,
    fresh,
    opaque,
    sequence,
    several,
)

NN = "torch.nn.functional."
FUNCTIONAL = ("torch.", NN, "torch.Tensor.")
#: These change a tensor object, and return it.
RESHAPERS = frozenset({"set_", "resize_", "resize_as_", "detach_"})


@dataclass(frozen=True)
class Site:
    """A call with everything in it evaluated."""

    node: ast.Call
    #: The likeliest full name of the function.
    full: str
    #: The value that the method belongs to; None if a function is called.
    base: Value | None
    arguments: list[Value]
    keywords: dict[str | None, Value]
    #: Whether it is a bare name that the module does not import.
    bare: bool
    of_ctx: bool
    change: Callable[[Value, str], None]

    @property
    def everything(self) -> list[Value]:
        """Return all arguments."""
        return [*self.arguments, *self.keywords.values()]


def call(site: Site) -> Value:
    """Return the result of a call, and note what it changes."""
    full = site.full
    if "out" in site.keywords and full.startswith("torch."):
        site.change(site.keywords["out"], f"out= of {full}")
    if site.bare:
        return _builtin(full, site.everything)
    if full == "torch.autograd.grad":
        return _gradients(site)
    for prefix in reversed(FUNCTIONAL):
        name = full.removeprefix(prefix)
        if full.startswith(prefix) and "." not in name:
            return _functional(site, name) if prefix == NN else _function(site, name)
    return opaque(*site.everything) if site.base is None else _method(site, site.base)


def _gradients(site: Site) -> Value:
    """Evaluate ``torch.autograd.grad``: without ``create_graph`` the results have no graph."""
    if "create_graph" in site.keywords and site.keywords["create_graph"].truth is not False:
        return opaque(*site.everything)
    cut = (site.node.lineno, "torch.autograd.grad without create_graph")
    return several("tuple", Value("tensor", "likely", cuts=opaque(*site.everything).cuts | {cut}))


def _builtin(name: str, everything: list[Value]) -> Value:
    if name in known.PLAIN_BUILTINS:
        return PLAIN
    if name in {"tuple", "list"}:
        return _sequence("tuple" if name == "tuple" else "list", everything)
    if everything and all(value.is_sequence for value in everything):
        first = everything[0].each
        match name:
            case "zip":
                return several("list", sequence("tuple", [value.each for value in everything]))
            case "enumerate":
                return several("list", sequence("tuple", [PLAIN, first]))
            case "reversed":
                return several("list", first)
    return opaque(*everything)


def _sequence(kind: Kind, everything: list[Value]) -> Value:
    """Evaluate ``tuple(...)`` or ``list(...)``."""
    if not everything:
        return sequence(kind, [])
    known_items = len(everything) == 1 and everything[0].is_sequence
    return replace(everything[0], kind=kind) if known_items else several(kind, opaque(*everything))


def _functional(site: Site, name: str) -> Value:
    """Evaluate ``torch.nn.functional``: nothing there returns a view, not even ``unfold``, unlike the method."""
    everything = site.everything
    first = everything[0] if everything else PLAIN
    if _changes(name) or site.keywords.get("inplace", PLAIN).truth:
        site.change(first, f"{NN}{name}")
        return first
    return _computed(site, name)


def _function(site: Site, name: str) -> Value:
    everything = site.everything
    first = everything[0] if everything else PLAIN
    if _changes(name):
        site.change(first, f"torch.{name}")
        return first
    if name in known.VIEWS_OF_EACH:
        starred = any(isinstance(argument, ast.Starred) for argument in site.node.args)
        each = [_as_tensor(value) for value in everything]
        return several("tuple", opaque(*everything)) if starred or not each else sequence("tuple", each)
    if name in known.SPLITTERS:
        return several("tuple", replace(_as_tensor(first), derives=first.derives))
    if name in known.VIEW_METHODS:
        return _as_tensor(first)
    if name in known.MAYBE_METHODS or (name in known.MAYBE_FUNCTIONS and first.shares):
        return fresh(*everything) if _copies(name, site.node.args[1:], site.keywords) else _maybe(first)
    if name == "detach":
        return cut_off(first, site.node.lineno, "torch.detach")
    if name in known.EXTREMES and first.is_tensor:
        return _extreme(name, everything)
    if name == "einsum" and len(everything) == 2 and everything[1].shares:
        return _maybe(everything[1])  # of one operand, "ij->ji" is a view
    return _computed(site, name)


def _computed(site: Site, name: str) -> Value:
    """Return a new tensor, or an unknown value."""
    everything = site.everything
    if name in known.FLAT:
        return fresh()
    if "backward" in name:
        return Value()  # PyTorch's own backward functions cannot be differentiated again
    return fresh(*everything) if name in known.MAKERS | known.MAYBE_FUNCTIONS else opaque(*everything)


def _method(site: Site, base: Value) -> Value:
    assert isinstance(site.node.func, ast.Attribute)
    name = site.node.func.attr
    if base.is_container:
        return containers.method(name, base, site.everything)
    if name in known.PLAIN_METHODS:
        return PLAIN
    if base.kind == "plain" or site.of_ctx:
        return opaque(*site.everything)
    return _of_tensor(site, name, base)


def _of_tensor(site: Site, name: str, base: Value) -> Value:
    """Evaluate a method of a tensor, or of a value that may be one."""
    everything = site.everything
    own = base.is_tensor or name not in known.SHARED_METHODS or bool(known.TENSOR_KEYWORDS & site.keywords.keys())
    if name in RESHAPERS:
        return _as_tensor(base) if base.kind == "unknown" else base
    if name == "copy_" and _onto_itself(site.node):
        return base
    if _changes(name):
        sure = base.sure if base.is_tensor else "likely"
        site.change(replace(base, sure=sure), f".{name}()")
        return replace(base, kind="tensor", sure=sure, derives=base.derives | opaque(*everything).derives)
    if name == "numpy" and (base.is_tensor or base.shares):
        return opaque(cut_off(base, site.node.lineno, ".numpy()"))
    if name == "detach":  # only tensors have it
        proven = base if base.is_tensor and base.sure != "possible" else replace(base, kind="unknown")
        return cut_off(proven, site.node.lineno, f".{name}()")
    if name in known.SPLITTERS and base.is_tensor:
        return several("tuple", base)
    if name in known.VIEW_METHODS and own:
        return _as_tensor(base)
    copied = _copies(name, site.node.args, site.keywords)
    if name in known.MAYBE_METHODS and own and not copied:
        return _maybe(base)
    if name in known.EXTREMES and base.is_tensor:
        return _extreme(name, [base, *everything])
    if (name in known.FRESH_METHODS or copied) and own:
        sources = () if name in known.FLAT else (base, *everything)
        return fresh(*sources, sure=base.sure if base.is_tensor else "likely")
    return opaque(base, *everything)


def _changes(name: str) -> bool:
    return name.endswith("_") and not name.endswith("__") and len(name) > 2 and name not in known.NOT_IN_PLACE


def _copies(name: str, arguments: list[ast.expr], keywords: dict[str | None, Value]) -> bool:
    """Tell whether ``to(..., copy=True)`` and the like request a copy; ``copy`` comes last, after ``non_blocking``."""
    if "copy" in keywords:
        return keywords["copy"].truth is True
    *_, before, last = [None, None, *arguments]
    if name != "to" or not isinstance(last, ast.Constant) or last.value is not True:
        return False
    return len(arguments) == 4 or (len(arguments) == 3 and _is_flag(before))


def _is_flag(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, bool)


def _extreme(name: str, everything: list[Value]) -> Value:
    """Evaluate the maximum or minimum of a tensor; with a dimension, ``max`` returns the indices too."""
    value = fresh(*everything) if name in known.FRESH_METHODS else opaque(*everything)
    return replace(value, extreme=len(everything) == 1 or not everything[1].is_tensor)


def _maybe(value: Value) -> Value:
    """Return a tensor that may or may not share the memory."""
    return replace(_as_tensor(value), alias=weakest(value.alias, "likely"))


def _onto_itself(node: ast.Call) -> bool:
    base = node.func.value if isinstance(node.func, ast.Attribute) else node.func
    return len(node.args) == 1 and ast.dump(node.args[0]) == ast.dump(base)


def _as_tensor(value: Value) -> Value:
    return value if value.is_tensor else replace(value, kind="tensor", sure="likely", items=None, element=None)
