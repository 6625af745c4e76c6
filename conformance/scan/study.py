"""Study a class for the rules, by walking through its methods."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cached_property

from conformance.scan.classes import FunctionClass, Method, Parameters, is_stub
from conformance.scan.flow import walk
from conformance.scan.helpers import Helpers
from conformance.scan.inline import Inliner
from conformance.scan.model import Confidence, Finding
from conformance.scan.parameters import default_none, parameter, tensor
from conformance.scan.trace import Trace
from conformance.scan.values import NONE, UNKNOWN, Value, joined, sequence, several
from conformance.scan.vocabulary import (
    FRESH_METHODS,
    MAYBE_METHODS,
    OF_EITHER,
    OF_TENSORS,
    SELDOM_NUMBERS,
    SHARED_METHODS,
    SPLITTERS,
    TENSOR_KEYWORDS,
    VIEW_METHODS,
)

METHODS = FRESH_METHODS | VIEW_METHODS | MAYBE_METHODS | SPLITTERS | {"detach"}
#: Only tensors have these.
TENSOR_METHODS = METHODS - SHARED_METHODS


@dataclass(frozen=True)
class Walked:
    """A method of the class itself, its parameters, and what it does."""

    method: Method
    takes: Parameters
    trace: Trace


class Study:
    """One class, its own methods walked through when first asked for."""

    def __init__(self, subject: FunctionClass, helpers: Helpers) -> None:
        self.subject = subject
        self.helpers = helpers
        self.names = subject.module.names

    def finding(self, clause: str, confidence: Confidence, line: int, message: str) -> Finding:
        """Make a finding in this class."""
        return Finding(clause, confidence, self.subject.module.file, line, message)

    @cached_property
    def forward(self) -> Walked | None:
        """Return the class's own forward."""
        method = self.subject.own("forward")
        takes = self.subject.takes(method) if method else None
        if method is None or takes is None or is_stub(method):
            return None
        return self._walked(method, takes, self._inputs(method, takes))

    @cached_property
    def any_forward(self) -> Walked | None:
        """Return the forward that runs: the class's own, or the one that it inherits."""
        found = self.subject.lookup("forward")
        if found is None or found[0] is self.subject:
            return self.forward
        return Study(found[0], self.helpers).forward

    @cached_property
    def setup_context(self) -> Walked | None:
        """Return the class's own setup_context; its ``inputs`` are the parameters of forward, if these are known."""
        method = self.subject.own("setup_context")
        takes = self.subject.takes(method) if method else None
        if method is None or takes is None or len(takes.names) != 2:
            return None
        inputs, output = takes.names
        env = {inputs: self._all_inputs(), output: self._output()}
        return self._walked(method, takes, env)

    @cached_property
    def backward(self) -> Walked | None:
        """Return the class's own backward or vjp, given a gradient for each parameter."""
        method = self.subject.own("backward") or self.subject.own("vjp")
        takes = self.subject.takes(method) if method else None
        if method is None or takes is None:
            return None
        env = {name: tensor(name, "certain") for name in takes.names}
        if takes.rest:
            env[takes.rest] = several("tuple", tensor(takes.rest, "certain"))
        return self._walked(method, takes, env)

    @cached_property
    def jvp(self) -> Walked | None:
        """Return the class's own jvp, given a tangent for each parameter."""
        method = self.subject.own("jvp")
        takes = self.subject.takes(method) if method else None
        if method is None or takes is None:
            return None
        env = {name: tensor(name, "likely") for name in takes.names}
        return self._walked(method, takes, env)

    @cached_property
    def keepers(self) -> list[Walked]:
        """Return the methods that may put things on ctx for later."""
        combined = [self.forward] if self.forward and self.forward.takes.ctx else []
        return [*combined, *([self.setup_context] if self.setup_context else [])]

    def _walked(self, method: Method, takes: Parameters, env: dict[str, Value]) -> Walked:
        inliner = Inliner(self.helpers, self.subject.module, takes.ctx)
        return Walked(method, takes, walk(method, self.names, takes.ctx, env, inliner))

    def _inputs(self, method: Method, takes: Parameters) -> dict[str, Value]:
        """Infer each parameter of forward before it runs, from annotations and from its use."""
        annotations = {argument.arg: argument.annotation for argument in (*method.args.posonlyargs, *method.args.args)}
        used = self._used_as_tensor(method, takes.ctx)
        for name in self._differentiated(takes):
            used.setdefault(name, "likely")
        for name in list(self._one_of_two(method, used)):
            used.setdefault(name, "likely")
        env = {name: parameter(name, annotations.get(name), used.get(name)) for name in takes.names}
        for name in default_none(method):
            if name in env and env[name].is_tensor:
                env[name] = joined(env[name], NONE)
        if takes.rest:
            env[takes.rest] = several("tuple", Value(shares=frozenset({takes.rest}), derives=frozenset({takes.rest})))
        return env

    def _differentiated(self, takes: Parameters) -> set[str]:
        """Return the inputs for which backward returns a tensor: they must be tensors themselves."""
        names: set[str] = set()
        for returned in self.backward.trace.returns if self.backward else []:
            value = returned.value
            items = value.items if value.items is not None else (value,)
            names |= {name for name, item in zip(takes.names, items, strict=False) if item.is_tensor}
        return names

    def _used_as_tensor(self, method: Method, ctx: str) -> dict[str, Confidence]:
        """Return the names that a method uses as tensors before it reassigns them, and how sure that is."""
        rebound: dict[str, int] = {}
        for node in ast.walk(method):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                rebound[node.id] = min(node.lineno, rebound.get(node.id, node.lineno))
        used: dict[str, Confidence] = {}
        for node in ast.walk(method):
            if isinstance(node, ast.Call):
                for name, sure in self._tensors_of(node, ctx):
                    if node.lineno <= rebound.get(name, node.lineno) and used.get(name) != "certain":
                        used[name] = sure
        return used

    def _tensors_of(self, node: ast.Call, ctx: str) -> Iterator[tuple[str, Confidence]]:
        """Yield names that must be tensors for this call to work."""
        function, first = node.func, node.args[0] if node.args else None
        match function:
            case ast.Attribute(value=ast.Name(id=owner), attr="save_for_backward") if owner == ctx:
                yield from ((argument.id, "certain") for argument in node.args if isinstance(argument, ast.Name))
        root = _root(function)
        if root and _is_tensors(function, node) and not self.names.is_imported(root):
            yield root, "likely"
        name = self._of_torch(node)
        if name in OF_TENSORS | VIEW_METHODS and isinstance(first, ast.Name):
            yield first.id, "likely"
        if name == "einsum" and len(node.args) > 2 and isinstance(first, ast.Constant | ast.JoinedStr):
            yield from ((argument.id, "likely") for argument in node.args[1:] if isinstance(argument, ast.Name))

    def _of_torch(self, node: ast.Call) -> str:
        """Return the name of a function of ``torch`` or ``torch.nn.functional``; empty for anything else."""
        full = self.names.full(node.func)
        name = full.rpartition(".")[2]
        return name if full in {f"torch.{name}", f"torch.nn.functional.{name}"} else ""

    def _one_of_two(self, method: Method, used: dict[str, Confidence]) -> Iterator[str]:
        """Yield first operands of ``torch.mul(x, y)`` and the like, unless the other may be the tensor."""
        for node in ast.walk(method):
            if isinstance(node, ast.Call) and self._of_torch(node) in OF_EITHER and node.args:
                first, *others = node.args
                seldom = self._of_torch(node) in SELDOM_NUMBERS
                if isinstance(first, ast.Name) and not any(_may_be_tensor(other, used, seldom) for other in others):
                    yield first.id

    def _all_inputs(self) -> Value:
        method = self.subject.method("forward")
        takes = self.subject.takes(method) if method else None
        if method is None or takes is None or takes.rest:
            return UNKNOWN
        setup = self.subject.own("setup_context")
        saved = self._saved_inputs(setup, takes) if setup else {}
        known = self._inputs(method, takes)
        for name in saved:
            known[name] = tensor(name, "certain")
        return sequence("tuple", [known[name] for name in takes.names])

    def _saved_inputs(self, setup: Method, takes: Parameters) -> set[str]:
        """Return the inputs that setup_context saves, by the names of an unpacking in forward's order."""
        used = self._used_as_tensor(setup, setup.args.args[0].arg if setup.args.args else "")
        for node in ast.walk(setup):
            if (
                isinstance(node, ast.Assign)
                and isinstance(node.targets[0], ast.Tuple)
                and isinstance(node.value, ast.Name)
            ):
                targets = [part.id if isinstance(part, ast.Name) else "" for part in node.targets[0].elts]
                if node.value.id == setup.args.args[1].arg and len(targets) == len(takes.names):
                    return {
                        name for target, name in zip(targets, takes.names, strict=True) if used.get(target) == "certain"
                    }
        return set()

    def _output(self) -> Value:
        returned = [found.value for found in self.any_forward.trace.returns] if self.any_forward else []
        return joined(*returned) if returned else UNKNOWN


def _root(function: ast.expr) -> str:
    """Return the name at the start of a chain of methods such as ``x.float().detach()``; empty if it is not one."""
    while isinstance(function, ast.Attribute) and function.attr in METHODS | SHARED_METHODS:
        if isinstance(function.value, ast.Name):
            return function.value.id
        function = function.value.func if isinstance(function.value, ast.Call) else function.value
    return ""


def _is_tensors(function: ast.expr, node: ast.Call) -> bool:
    """Tell whether only a tensor can have this method with these keywords."""
    method = function.attr if isinstance(function, ast.Attribute) else ""
    asked = any(keyword.arg in TENSOR_KEYWORDS for keyword in node.keywords)
    return method in TENSOR_METHODS or (method in METHODS | SHARED_METHODS and asked)


def _may_be_tensor(node: ast.expr, used: Collection[str], seldom: bool) -> bool:
    """Tell whether an operand may be a tensor; if it ``seldom`` is one, only a known tensor counts."""
    if isinstance(node, ast.UnaryOp):
        node = node.operand
    if isinstance(node, ast.Name) and seldom:
        return node.id in used
    return not isinstance(node, ast.Constant)
