"""The ways that control can take through a method, as far as certain calls are concerned."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field, replace

#: Beyond this many ways nothing is claimed.
MOST = 256

Facts = tuple[tuple[str, bool], ...]


@dataclass(frozen=True)
class Way:
    """One way through: the watched calls on it in order, what its tests gave, and whether it has ended."""

    seen: tuple[ast.Call, ...] = ()
    facts: Facts = ()
    ended: bool = False
    raised: bool = False
    #: Tests without an else that had to come out one way for a watched call to run.
    choices: int = 0


@dataclass
class _Paths:
    watched: set[int]
    overflow: bool = field(default=False)

    def block(self, statements: list[ast.stmt], before: list[Way]) -> list[Way]:
        for statement in statements:
            if self.matters(statement):
                done = [way for way in before if way.ended]
                open_ways = [way for way in before if not way.ended]
                before = done + [after for way in open_ways for after in self.statement(statement, way)]
                if len(before) > MOST:
                    self.overflow = True
                    return before[:1]
        return before

    def matters(self, node: ast.AST) -> bool:
        return any(id(inner) in self.watched or isinstance(inner, ast.Return | ast.Raise) for inner in ast.walk(node))

    def statement(self, node: ast.stmt, way: Way) -> list[Way]:
        match node:
            case ast.Return() | ast.Raise():
                return [replace(self.expression(node, way), ended=True, raised=isinstance(node, ast.Raise))]
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                return [way]  # runs later, if ever
        return self.compound(node, way)

    def compound(self, node: ast.stmt, way: Way) -> list[Way]:
        match node:
            case ast.If():
                return self.branch(node, way)
            case ast.Match():
                arms = [self.block(case.body, [way]) for case in node.cases]
                return [after for arm in [*arms, [way]] for after in arm]
            case ast.For() | ast.AsyncFor() | ast.While():
                # Once or never: a second round is not claimed.
                return [way, *self.block(node.body, [replace(way, choices=way.choices + 1)])]
            case ast.Try() | ast.TryStar():
                tried = self.block([*node.body, *node.orelse], [way])
                handled = [after for handler in node.handlers for after in self.block(handler.body, [way])]
                return self.block(node.finalbody, tried + handled)
            case ast.With() | ast.AsyncWith():
                return self.block(node.body, [way])
        return [self.expression(node, way)]

    def expression(self, node: ast.AST, way: Way) -> Way:
        inside = [inner for inner in ast.walk(node) if isinstance(inner, ast.Call) and id(inner) in self.watched]
        return replace(way, seen=(*way.seen, *sorted(inside, key=lambda call: call.lineno)))

    def branch(self, node: ast.If, way: Way) -> list[Way]:
        after: list[Way] = []
        for outcome, body in ((True, node.body), (False, node.orelse)):
            facts = _facts(node.test, outcome)
            if not _contradict(way.facts, facts):
                alone = int(not node.orelse and outcome)
                start = replace(way, facts=(*way.facts, *facts), choices=way.choices + alone)
                after += self.block(body, [start])
        return after


def ways(body: list[ast.stmt], watched: set[int]) -> list[Way]:
    """All ways through ``body`` that do not end by raising; none when there are too many to tell."""
    paths = _Paths(watched)
    found = paths.block(body, [Way()])
    return [] if paths.overflow else [way for way in found if not way.raised]


def _facts(test: ast.expr, outcome: bool) -> Facts:
    """What a test's outcome tells: ``not`` is turned round; parts of a true ``and`` or false ``or`` hold."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return _facts(test.operand, not outcome)
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) is outcome:
        return tuple(fact for part in test.values for fact in _facts(part, outcome))
    if (
        isinstance(test, ast.Compare)
        and len(test.ops) == 1
        and isinstance(test.ops[0], ast.IsNot | ast.NotEq | ast.NotIn)
    ):
        turned = {ast.IsNot: ast.Is, ast.NotEq: ast.Eq, ast.NotIn: ast.In}[type(test.ops[0])]
        test = ast.Compare(test.left, [turned()], test.comparators)
        return ((ast.dump(test), not outcome),)
    return ((ast.dump(test), outcome),)


def _contradict(known: Facts, new: Facts) -> bool:
    before = dict(known)
    if any(before.get(test, outcome) is not outcome for test, outcome in new):
        return True
    # x == 1 and x == 2 cannot both hold.
    equals = [
        text
        for text, outcome in (*known, *new)
        if outcome and "ops=[Eq()]" in text and "comparators=[Constant(" in text
    ]
    by_left: dict[str, str] = {}
    for text in equals:
        left = text.partition(", ops=[Eq()]")[0]
        if by_left.setdefault(left, text) != text:
            return True
    return False
