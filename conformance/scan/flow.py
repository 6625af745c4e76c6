"""Walk through a method statement by statement, with branches apart, and note what it does."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import replace

from conformance.scan import containers
from conformance.scan.expressions import Environment, Expressions, Follow
from conformance.scan.names import Names
from conformance.scan.narrow import decided, narrowed
from conformance.scan.parameters import annotated
from conformance.scan.paths import irrefutable
from conformance.scan.trace import Returned, Trace
from conformance.scan.values import UNKNOWN, Value, joined, opaque, several, shifted

Block = list[ast.stmt]
#: What begins an iteration of a loop: its test, or a new value for its names.
Begin = Callable[[], object]


def walk(method: ast.FunctionDef, names: Names, ctx: str, env: Environment, follow: Follow) -> Trace:
    """Return what a method does if its parameters have the values in ``env``."""
    walker = _Walker(Expressions(names, ctx, dict(env), Trace(), follow))
    walker.trace.comes_out = walker.block(method.body)
    walker.trace.after = walker.expressions.env
    return walker.trace


#: Down to this nesting depth, loops are walked through twice.
ROUNDS_OF = 3


class _Walker:
    def __init__(self, expressions: Expressions) -> None:
        self.expressions = expressions
        self.trace = expressions.trace
        #: The states at each break and continue of the loop that is walked through.
        self.left: list[Environment] = []
        self.continued: list[Environment] = []
        self.depth = 0

    def block(self, statements: Block) -> bool:
        """Walk through statements; return whether control reaches their end."""
        return all(self._statement(statement) for statement in statements)

    def _statement(self, node: ast.stmt) -> bool:
        match node:
            case ast.Return():
                self.trace.returns.append(Returned(node.lineno, self.expressions.value(node.value)))
                return False
            case ast.Raise():
                return False
            case ast.Continue() | ast.Break():
                (self.left if isinstance(node, ast.Break) else self.continued).append(dict(self.expressions.env))
                return False
            case ast.Assign():
                self._assign(node)
            case ast.AnnAssign(value=ast.expr()):
                self._bind(node.target, annotated(self.expressions.value(node.value), node.annotation), node)
            case ast.AugAssign():
                self._augmented(node)
            case ast.Expr():
                self.expressions.value(node.value)
            case ast.Delete():
                self._delete(node)
            case ast.Assert():
                self.expressions.env.update(narrowed(node.test, True, self.expressions.env))
            case _:
                return self._compound(node)
        return True

    def _compound(self, node: ast.stmt) -> bool:
        match node:
            case ast.If():
                return self._if(node)
            case ast.For() | ast.AsyncFor():
                return self._for(node)
            case ast.While():
                return self._while(node)
            case ast.Match():
                return self._match(node)
            case ast.Try() | ast.TryStar():
                return self._try(node)
            case ast.With() | ast.AsyncWith():
                return self._with(node)
        return True  # a definition: what is in it runs later, if ever

    def _if(self, node: ast.If) -> bool:
        self.expressions.value(node.test)
        outcome = decided(node.test, self.expressions.env)
        known = [narrowed(node.test, way, self.expressions.env) for way in (True, False)]
        if outcome is None:
            return self._branches([node.body, node.orelse], known)
        return self._branches([node.body if outcome else node.orelse], [known[not outcome]])

    def _with(self, node: ast.With | ast.AsyncWith) -> bool:
        for item in node.items:
            value = self.expressions.value(item.context_expr)
            if item.optional_vars is not None:
                self.expressions.bind(item.optional_vars, opaque(value))
        return self.block(node.body)

    def _branches(self, blocks: list[Block], known: Sequence[Environment] = ()) -> bool:
        """Walk through each block from the same state, and join the states at their ends."""
        before = self.expressions.env
        after: list[Environment] = []
        for place, block in enumerate(blocks):
            self.expressions.env = {**before, **(known[place] if known else {})}
            if self.block(block):
                after.append(self.expressions.env)
        self.expressions.env = _joined(after) if after else before
        return bool(after)

    def _for(self, node: ast.For | ast.AsyncFor) -> bool:
        value = self.expressions.value(node.iter)
        return self._loop(node, lambda: self.expressions.bind(node.target, value, looped=True))

    def _while(self, node: ast.While) -> bool:
        endless = isinstance(node.test, ast.Constant) and bool(node.test.value)
        return self._loop(node, lambda: self.expressions.value(node.test), endless)

    def _loop(self, node: ast.For | ast.AsyncFor | ast.While, begin: Begin, endless: bool = False) -> bool:
        """Walk through a loop, and join the states of all its exits."""
        outside = self.left, self.continued
        before = dict(self.expressions.env)
        self.depth += 1
        ends = self._round(node.body, begin)
        left = self.left
        if ends and self.depth <= ROUNDS_OF:
            self._second_round(node.body, begin, [before, *ends])
        self.depth -= 1
        self.left, self.continued = outside
        ends = ends if endless else [before, *ends]
        self.expressions.env = _joined(ends) if ends else before
        after = [*left]
        if not endless and self.block(node.orelse):
            after.append(self.expressions.env)
        self.expressions.env = _joined(after) if after else before
        return bool(after)

    def _round(self, body: Block, begin: Begin) -> list[Environment]:
        """Walk through one iteration; return the state at each of its ends."""
        self.left, self.continued = [], []
        begin()
        self._forget(body)
        return [*([self.expressions.env] if self.block(body) else []), *self.continued]

    def _second_round(self, body: Block, begin: Begin, starts: list[Environment]) -> None:
        """Note what a later iteration changes because of an earlier one, and nothing else of it."""
        first = self.trace
        self.expressions.env = _joined(starts)
        self.trace = self.expressions.trace = Trace()
        self._round(body, begin)
        seen = {(change.line, change.how) for change in first.changes}
        first.changes += [change for change in self.trace.changes if (change.line, change.how) not in seen]
        self.trace = self.expressions.trace = first

    def _match(self, node: ast.Match) -> bool:
        subject = self.expressions.value(node.subject)
        known = [_captured(case.pattern, subject) for case in node.cases]
        bodies = [case.body for case in node.cases]
        if not any(irrefutable(case) for case in node.cases):
            bodies, known = [*bodies, []], [*known, {}]
        return self._branches(bodies, known)

    def _forget(self, body: Block) -> None:
        """Forget the tests of names that the loop assigns: they may differ in the next iteration."""
        inside = (node for statement in body for node in ast.walk(statement))
        for node in inside:
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id in self.expressions.env:
                self.expressions.env[node.id] = replace(self.expressions.env[node.id], truth=None)

    def _try(self, node: ast.Try | ast.TryStar) -> bool:
        before = dict(self.expressions.env)
        comes_out = self.block(node.body) and self.block(node.orelse)
        middle = _joined([before, self.expressions.env])
        after = [self.expressions.env] if comes_out else []
        for handler in node.handlers:
            self.expressions.env = dict(middle)
            if self.block(handler.body):
                after.append(self.expressions.env)
        self.expressions.env = _joined(after) if after else middle
        return self.block(node.finalbody) and bool(after)

    def _assign(self, node: ast.Assign) -> None:
        value = self.expressions.value(node.value)
        for target in node.targets:
            if self._is_ctx_tuple(target) and isinstance(target, ast.Tuple):
                self._each(target, value, node)
            else:
                self._bind(target, value, node)

    def _is_ctx_tuple(self, target: ast.expr) -> bool:
        return isinstance(target, ast.Tuple) and any(
            not isinstance(part, ast.Name | ast.Starred) for part in target.elts
        )

    def _each(self, target: ast.Tuple, value: Value, node: ast.stmt) -> None:
        known = value.items if value.items is not None and len(value.items) == len(target.elts) else None
        for place, part in enumerate(target.elts):
            self._bind(part, known[place] if known else opaque(value), node)

    def _bind(self, target: ast.expr, value: Value, node: ast.stmt) -> None:
        if isinstance(target, ast.Attribute):
            self.expressions.put(node, target, value)
        elif isinstance(target, ast.Subscript):
            self._store(target, value, node)
        else:
            self.expressions.bind(target, value)

    def _store(self, target: ast.Subscript, value: Value, node: ast.stmt) -> None:
        """Evaluate ``base[index] = value``: it changes a tensor in place, or a list."""
        base = self.expressions.value(target.value)
        self.expressions.value(target.slice)
        if base.is_tensor:
            self.expressions.change(node, base, "assignment to its elements")
        if base.is_container:
            self.expressions.put(node, target.value, self._replaced(base, target.slice, value))
        elif isinstance(target.value, ast.Name):
            both = opaque(base, value)
            self.expressions.env[target.value.id] = replace(base, derives=both.derives, cuts=both.cuts)

    def _replaced(self, held: Value, index: ast.expr, value: Value) -> Value:
        if held.kind == "dict":
            return containers.stored(held, index, value)
        place = containers.at(held, index)
        if held.items is not None and place is not None:
            items = (*held.items[:place], value, *held.items[place + 1 :])
            both = opaque(held, value)
            return replace(held, items=items, derives=both.derives, cuts=both.cuts)
        if held.items is not None and not isinstance(index, ast.Slice):
            return replace(held, items=tuple(joined(item, value) for item in held.items))
        return several(held.kind, joined(held.each, value))

    def _augmented(self, node: ast.AugAssign) -> None:
        added = self.expressions.value(node.value)
        target = node.target
        base = self.expressions.value(target)
        if isinstance(target, ast.Subscript) and (whole := self.expressions.value(target.value)).is_tensor:
            self.expressions.change(node, whole, "augmented assignment to its elements")
        elif base.is_tensor:
            self.expressions.change(node, base, "augmented assignment")
        if isinstance(target, ast.Name):
            if base.is_tensor:
                both = opaque(base, added)
                cuts = shifted(base, added) if isinstance(node.op, ast.Add | ast.Sub) else both.cuts
                self.expressions.env[target.id] = replace(base, derives=both.derives, cuts=cuts)
            else:
                added_up = ast.BinOp(ast.Name(target.id), node.op, node.value, lineno=node.lineno)
                self.expressions.env[target.id] = self.expressions.value(added_up)

    def _delete(self, node: ast.Delete) -> None:
        for target in node.targets:
            if isinstance(target, ast.Name):
                self.expressions.env.pop(target.id, None)
            elif isinstance(target, ast.Subscript):
                held = self.expressions.value(target.value)
                if held.is_sequence and held.items:
                    self.expressions.put(node, target.value, several(held.kind, held.each))


def _captured(pattern: ast.pattern, subject: Value) -> Environment:
    """Return the names that a pattern binds: to the subject itself, or to a part of it."""
    names: Environment = {}
    for node in ast.walk(pattern):
        match node:
            case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)) | ast.MatchMapping(rest=str(name)):
                names[name] = opaque(subject)
    while isinstance(pattern, ast.MatchAs):
        if pattern.name:
            names[pattern.name] = subject
        if pattern.pattern is None:
            break
        pattern = pattern.pattern
    return names


def _joined(environments: list[Environment]) -> Environment:
    """Join the states of several paths; a name bound on only one of them is unknown."""
    first, *rest = environments
    for other in rest:
        names = [*first, *(name for name in other if name not in first)]
        first = {name: joined(first.get(name, UNKNOWN), other.get(name, UNKNOWN)) for name in names}
    return first
