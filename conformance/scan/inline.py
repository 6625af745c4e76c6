"""Walk through a helper as if its body stood at the call."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from conformance.scan.expressions import Environment, Followed
from conformance.scan.flow import walk
from conformance.scan.helpers import Helper, Helpers
from conformance.scan.source import Module
from conformance.scan.values import NONE, PLAIN, UNKNOWN, Value, joined, several

#: How deep helpers of helpers are followed.
DEPTH = 3


@dataclass(frozen=True)
class Inliner:
    """Follows the calls in one module; ``ctx`` is what the method that is walked through calls its ctx."""

    helpers: Helpers
    module: Module
    ctx: str
    open: tuple[ast.FunctionDef, ...] = ()

    def __call__(
        self, node: ast.Call, full: str, arguments: list[Value], keywords: dict[str | None, Value]
    ) -> Followed | None:
        """Return what a helper does with these arguments; None if the helper cannot be followed."""
        helper = self.helpers.find(self.module, full)
        if helper is None or helper.node in self.open or len(self.open) >= DEPTH:
            return None
        if None in keywords or any(isinstance(argument, ast.Starred) for argument in node.args):
            return None
        env = _bound(helper.node, arguments, keywords)
        if env is None:
            return None
        ctx = _ctx(helper.node, node, self.ctx)
        deeper = Inliner(self.helpers, helper.module, ctx, (*self.open, helper.node))
        trace = walk(helper.node, helper.module.names, ctx, env, deeper)
        return Followed(
            helper.node.name,
            trace,
            _given(trace.comes_out, [item.value for item in trace.returns]),
            _untouched(helper, arguments, trace.after),
        )


def _given(comes_out: bool, returned: list[Value]) -> Value:
    everything = [*returned, NONE] if comes_out else returned
    return joined(*everything) if everything else UNKNOWN


def _bound(function: ast.FunctionDef, arguments: list[Value], keywords: dict[str | None, Value]) -> Environment | None:
    """Return the values of a helper's parameters; None if the arguments do not fit."""
    taken = function.args
    names = [argument.arg for argument in (*taken.posonlyargs, *taken.args)]
    only = [argument.arg for argument in taken.kwonlyargs]
    if len(arguments) > len(names) and not taken.vararg:
        return None
    if not taken.kwarg and not {key for key in keywords if key} <= {*names, *only}:
        return None
    env = {name: _default(value) for name, value in zip(reversed(names), reversed(taken.defaults), strict=False)}
    env |= {name: _default(value) for name, value in zip(only, taken.kw_defaults, strict=True) if value}
    env |= dict(zip(names, arguments, strict=False))
    env |= {key: value for key, value in keywords.items() if key}
    if taken.vararg:
        rest = arguments[len(names) :]
        env[taken.vararg.arg] = several("tuple", joined(*rest) if rest else UNKNOWN)
    return env


def _default(node: ast.expr) -> Value:
    if not isinstance(node, ast.Constant):
        return UNKNOWN
    return NONE if node.value is None else Value(PLAIN.kind, truth=bool(node.value))


def _ctx(function: ast.FunctionDef, node: ast.Call, ctx: str) -> str:
    """Return the helper's name for the ctx that it gets; empty if it gets none."""
    if not ctx:
        return ""
    names = [argument.arg for argument in (*function.args.posonlyargs, *function.args.args)]
    given = [*zip(names, node.args, strict=False), *((word.arg, word.value) for word in node.keywords)]
    return next((name for name, value in given if isinstance(value, ast.Name) and value.id == ctx and name), "")


def _untouched(helper: Helper, arguments: list[Value], after: Environment) -> list[Value]:
    """Return each argument's value afterwards, if the helper never reassigns its name."""
    names = [argument.arg for argument in (*helper.node.args.posonlyargs, *helper.node.args.args)]
    rebound = {
        node.id for node in ast.walk(helper.node) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    pairs = zip(names, arguments, strict=False)
    return [before if name in rebound else after.get(name, before) for name, before in pairs]
