"""Read facts from the tests on a path through a method, and find those that exclude each other."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

#: Comparisons that are the opposite of another.
OPPOSITE = {ast.IsNot: ast.Is, ast.NotEq: ast.Eq, ast.NotIn: ast.In}

#: How ``ast.dump`` ends for a name with a capital.
OF_A_CLASS = re.compile(r"(id|attr)='_*[A-Z]\w*', ctx=Load\(\)\)$")


@dataclass(frozen=True)
class Fact:
    """A test, and its result."""

    #: The tested expression; of a comparison by size, the larger one.
    left: str
    outcome: bool
    #: Of ``==``, ``is`` and ``in``: the values that it is compared with.
    among: frozenset[str] | None = None
    #: Of ``>``: the smaller one.
    above: str | None = None


Facts = tuple[Fact, ...]


def facts(test: ast.expr, outcome: bool) -> Facts:
    """Return the facts of a test's result: ``not`` inverts it; a true ``and`` or false ``or`` holds in all parts.

    >>> both = ast.parse("a and b", mode="eval").body
    >>> len(facts(both, True)), len(facts(both, False))
    (2, 1)
    """
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return facts(operand, not outcome)
        case ast.BoolOp(op=operator, values=values) if isinstance(operator, ast.And) is outcome:
            return tuple(fact for part in values for fact in facts(part, outcome))
        case ast.Compare(left=left, ops=[operator], comparators=[right]):
            return tuple(_compared(left, operator, right, outcome))
    return (Fact(ast.dump(test), outcome),)


def contradict(known: Facts, new: Facts) -> bool:
    """Tell whether these cannot all hold.

    >>> def told(text):
    ...     return facts(ast.parse(text, mode="eval").body, True)
    >>> contradict(told("k > 1"), told("k <= 1")), contradict(told("k > 1"), told("k > 2"))
    (True, False)
    >>> contradict(told("mode in ('a', 'b')"), told("mode == 'c'")), contradict(told("k"), told("k is None"))
    (True, True)
    """
    together = (*known, *new)
    plain = {fact for fact in together if fact.among is None}
    if any(Fact(fact.left, not fact.outcome, above=fact.above) in plain for fact in plain):
        return True
    above = {(fact.left, fact.above) for fact in plain if fact.outcome and fact.above is not None}
    if any((small, large) in above for large, small in above):
        return True
    compared = [fact for fact in together if fact.among is not None]
    return any(_none_left(left, compared, above) for left in {fact.left for fact in compared})


def _compared(left: ast.expr, operator: ast.cmpop, right: ast.expr, outcome: bool) -> Iterator[Fact]:
    """Yield the facts of a comparison, in one form however it is written."""
    turned = OPPOSITE.get(type(operator))
    if turned is not None:
        operator, outcome = turned(), not outcome
    if isinstance(operator, ast.Eq) and isinstance(left, ast.Constant):
        left, right = right, left
    one, other = ast.dump(left), ast.dump(right)
    match operator:
        case ast.Gt():
            yield Fact(one, outcome, above=other)
        case ast.Lt():
            yield Fact(other, outcome, above=one)
        case ast.GtE():
            yield Fact(other, not outcome, above=one)
        case ast.LtE():
            yield Fact(one, not outcome, above=other)
        case _:
            yield Fact(one, outcome, among=_values(operator, right))
            if outcome and isinstance(right, ast.Constant) and right.value is None:
                yield Fact(one, False)


def _values(operator: ast.cmpop, right: ast.expr) -> frozenset[str]:
    """Return the values of a comparison; after ``in``, each item of a tuple, list or set."""
    if isinstance(operator, ast.In):
        items = right.elts if isinstance(right, ast.Tuple | ast.List | ast.Set) else None
        return frozenset(map(ast.dump, items)) if items is not None else frozenset({f"in {ast.dump(right)}"})
    return frozenset({ast.dump(right)})


def _none_left(left: str, compared: list[Fact], above: set[tuple[str, str]]) -> bool:
    """Tell whether no value is left for ``left``."""
    among = [fact.among or frozenset() for fact in compared if fact.left == left and fact.outcome]
    never = [fact.among or frozenset() for fact in compared if fact.left == left and not fact.outcome]
    ruled_out = frozenset().union(*never) | {value for pair in above if left in pair for value in pair}
    return any(one <= ruled_out or any(_apart(one, other) for other in among) for one in among)


def _apart(one: frozenset[str], other: frozenset[str]) -> bool:
    """Tell whether the two have no value in common: different constants, or members of one class."""
    return all(_differ(a, b) for a in one for b in other)


def _differ(one: str, other: str) -> bool:
    if one == other:
        return False
    if one.startswith("Constant(") and other.startswith("Constant("):
        return True
    return one.startswith("Attribute(") and _owner(one) == _owner(other) != ""


def _owner(attribute: str) -> str:
    """Return the class of an attribute, known by its capital letter; empty if it is not a class."""
    owner = attribute.rpartition(", attr=")[0]
    return owner if OF_A_CLASS.search(owner) else ""
