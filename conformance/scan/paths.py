"""Enumerate the paths through a method, as far as certain calls are concerned."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field, replace

from conformance.scan.facts import Facts, contradict, facts

#: With more paths than this, nothing is claimed.
MOST = 256


@dataclass(frozen=True)
class Way:
    """One path: the watched calls on it in order, the results of its tests, and whether it has ended."""

    seen: tuple[ast.Call, ...] = ()
    facts: Facts = ()
    ended: bool = False
    raised: bool = False
    #: Whether it has left the iteration, or the whole loop.
    skips: bool = False
    breaks: bool = False
    #: Tests without an else that had to come out one way for a watched call to run.
    choices: int = 0

    @property
    def gone(self) -> bool:
        """Tell whether the next statement is not on this path."""
        return self.ended or self.skips or self.breaks


@dataclass
class _Paths:
    watched: set[int]
    overflow: bool = field(default=False)

    def block(self, statements: list[ast.stmt], before: list[Way]) -> list[Way]:
        for statement in statements:
            if self.matters(statement):
                done = [way for way in before if way.gone]
                open_ways = [way for way in before if not way.gone]
                before = done + [after for way in open_ways for after in self.statement(statement, way)]
                if len(before) > MOST:
                    self.overflow = True
                    return before[:1]
        return before

    def matters(self, node: ast.AST) -> bool:
        leaves = any(id(inner) in self.watched or isinstance(inner, ast.Return | ast.Raise) for inner in ast.walk(node))
        return leaves or _leaves_round(node)

    def statement(self, node: ast.stmt, way: Way) -> list[Way]:
        match node:
            case ast.Return() | ast.Raise():
                return [replace(self.expression(node, way), ended=True, raised=isinstance(node, ast.Raise))]
            case ast.Continue() | ast.Break():
                return [replace(way, skips=isinstance(node, ast.Continue), breaks=isinstance(node, ast.Break))]
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                return [way]  # runs later, if ever
        return self.compound(node, way)

    def compound(self, node: ast.stmt, way: Way) -> list[Way]:
        match node:
            case ast.If():
                return self.branch(node, way)
            case ast.Match():
                return self.arms(node, way)
            case ast.For() | ast.AsyncFor() | ast.While():
                return self.loop(node, way)
            case ast.Try() | ast.TryStar():
                tried = self.block([*node.body, *node.orelse], [way])
                handled = [after for handler in node.handlers for after in self.block(handler.body, [way])]
                return self.block(node.finalbody, tried + handled)
            case ast.With() | ast.AsyncWith():
                return self.block(node.body, [way])
        return [self.expression(node, way)]

    def loop(self, node: ast.For | ast.AsyncFor | ast.While, way: Way) -> list[Way]:
        """Walk through a loop once or never: no second iteration is assumed."""
        endless = isinstance(node, ast.While) and isinstance(node.test, ast.Constant) and bool(node.test.value)
        rounds = self.block(node.body, [replace(way, choices=way.choices + (not endless))])
        left = [replace(after, breaks=False) for after in rounds if after.breaks or after.ended]
        through = [replace(after, skips=False) for after in rounds if not after.breaks and not after.ended]
        return [*left, *self.block(node.orelse, through if endless else [way, *through])]

    def arms(self, node: ast.Match, way: Way) -> list[Way]:
        """Return the cases of a match as tests, of which the first true one decides."""
        after: list[Way] = []
        alone = int(not any(map(irrefutable, node.cases)))
        for case in node.cases:
            held, failed = _case_facts(node.subject, case)
            if not contradict(way.facts, held):
                after += self.block(case.body, [replace(way, facts=(*way.facts, *held), choices=way.choices + alone)])
            if irrefutable(case) or contradict(way.facts, failed):
                return after
            way = replace(way, facts=(*way.facts, *failed))
        return [*after, way]

    def expression(self, node: ast.AST, way: Way) -> Way:
        inside = [inner for inner in ast.walk(node) if isinstance(inner, ast.Call) and id(inner) in self.watched]
        return replace(way, seen=(*way.seen, *sorted(inside, key=lambda call: call.lineno)))

    def branch(self, node: ast.If, way: Way) -> list[Way]:
        after: list[Way] = []
        for outcome, body in ((True, node.body), (False, node.orelse)):
            told = facts(node.test, outcome)
            if not contradict(way.facts, told):
                alone = int(not node.orelse and outcome)
                start = replace(way, facts=(*way.facts, *told), choices=way.choices + alone)
                after += self.block(body, [start])
        return after


def ways(body: list[ast.stmt], watched: set[int]) -> list[Way]:
    """Return all paths through ``body`` that do not end by raising; none if there are too many."""
    paths = _Paths(watched)
    found = paths.block(body, [Way()])
    return [] if paths.overflow else [way for way in found if not way.raised]


def irrefutable(case: ast.match_case) -> bool:
    """Tell whether a case matches everything that the cases before it did not."""
    return case.guard is None and isinstance(case.pattern, ast.MatchAs) and case.pattern.pattern is None


def _leaves_round(node: ast.AST) -> bool:
    """Tell whether a statement may end the iteration of its loop."""
    if isinstance(node, ast.Continue | ast.Break):
        return True
    if isinstance(node, ast.For | ast.AsyncFor | ast.While):
        return any(map(_leaves_round, node.orelse))
    return any(_leaves_round(child) for child in ast.iter_child_nodes(node) if not isinstance(child, ast.expr))


def _case_facts(subject: ast.expr, case: ast.match_case) -> tuple[Facts, Facts]:
    """Return what holds if a case is taken, and if not; only values tell."""
    match case.pattern:
        case ast.MatchValue(value=value):
            test = ast.Compare(subject, [ast.Eq()], [value])
        case ast.MatchSingleton(value=single):
            test = ast.Compare(subject, [ast.Is()], [ast.Constant(single)])
        case ast.MatchOr(patterns=patterns) if all(isinstance(part, ast.MatchValue) for part in patterns):
            values = [part.value for part in patterns if isinstance(part, ast.MatchValue)]
            test = ast.Compare(subject, [ast.In()], [ast.Tuple(values, ast.Load())])
        case _:
            return (), ()
    return facts(test, True), () if case.guard else facts(test, False)
