"""What the scan knows of a value: whether it is a tensor, whose memory it shares, what it depends on."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from conformance.scan.model import Confidence, weakest

Kind = Literal["unknown", "none", "plain", "tensor", "tuple", "list", "dict"]
NOBODY: frozenset[str] = frozenset()
#: The line, and what cuts there.
Cut = tuple[int, str]
UNCUT: frozenset[Cut] = frozenset()
#: The prefix of a cut that may cancel out.
MAYBE = "perhaps "


@dataclass(frozen=True)
class Value:
    """What is known of the value of an expression at one point of a method."""

    kind: Kind = "unknown"
    #: How sure it is that this is a tensor (or a sequence of them).
    sure: Confidence = "certain"
    #: Parameters (or ``"saved"``) whose memory it shares, and how sure that is.
    shares: frozenset[str] = NOBODY
    alias: Confidence = "certain"
    #: What a second derivative would lead back to.
    derives: frozenset[str] = NOBODY
    #: Where, and by what, it was cut off from the graph.
    cuts: frozenset[Cut] = UNCUT
    #: Of a tuple, list or dict: its items if their number is known, else what holds for each of them.
    items: tuple[Value, ...] | None = None
    element: Value | None = None
    #: Of a dict whose items are known: their keys, in the same order.
    keys: tuple[object, ...] = ()
    #: Whether it counts as true in a test, if that is known.
    truth: bool | None = None
    #: Whether it is a largest or smallest value: taking that away often cancels, as in a softmax that cannot overflow.
    extreme: bool = False

    @property
    def is_tensor(self) -> bool:
        """Tell whether this is a tensor, as surely as ``sure`` says."""
        return self.kind == "tensor"

    @property
    def is_sequence(self) -> bool:
        """Tell whether this is a tuple or a list."""
        return self.kind in {"tuple", "list"}

    @property
    def is_container(self) -> bool:
        """Tell whether this is a tuple, a list or a dict."""
        return self.is_sequence or self.kind == "dict"

    @property
    def parts(self) -> tuple[Value, ...]:
        """Return the items of a container, or one that stands for them all."""
        return self.items if self.items is not None else (self.each,)

    @property
    def places(self) -> tuple[object, ...]:
        """Return the keys or indices of a container's items; none if the items are not known."""
        return self.keys or tuple(range(len(self.items or ())))

    @property
    def each(self) -> Value:
        """Return what is known of every item of a container."""
        if self.items is not None:
            return joined(*self.items) if self.items else UNKNOWN
        return self.element or UNKNOWN


UNKNOWN = Value()
PLAIN = Value("plain")
NONE = Value("none", truth=False)


def fresh(*sources: Value, sure: Confidence = "certain") -> Value:
    """Return a new tensor that was computed from ``sources``."""
    return Value("tensor", sure, derives=derived(*sources), cuts=cut(*sources))


def opaque(*sources: Value) -> Value:
    """Return an unknown value that was computed from ``sources``."""
    return Value(derives=derived(*sources), cuts=cut(*sources))


def sequence(kind: Kind, items: list[Value]) -> Value:
    """Return a tuple or list of these."""
    return Value(kind, derives=derived(*items), cuts=cut(*items), items=tuple(items))


def mapping(items: dict[object, Value]) -> Value:
    """Return a dict of these."""
    return replace(sequence("dict", [*items.values()]), keys=tuple(items))


def several(kind: Kind, element: Value) -> Value:
    """Return a tuple or list of these, of unknown length."""
    return Value(kind, derives=element.derives, cuts=element.cuts, element=element)


def derived(*values: Value) -> frozenset[str]:
    """Everything that any of the values depends on."""
    return frozenset().union(*(value.derives for value in values))


def cut(*values: Value) -> frozenset[Cut]:
    """Return every place at which any of the values lost its graph."""
    return frozenset().union(*(value.cuts for value in values))


def cut_off(value: Value, line: int, how: str) -> Value:
    """Return the same memory without its graph."""
    cuts = value.cuts | {(line, how)} if value.derives else value.cuts
    sure = value.sure if value.is_tensor else "likely"
    return replace(value, kind="tensor", sure=sure, derives=NOBODY, cuts=cuts)


def shifted(*values: Value) -> frozenset[Cut]:
    """Return the cuts of values that are added up: what is cut off from an extreme may cancel."""
    return frozenset(
        (line, how if how.startswith(MAYBE) or not value.extreme else MAYBE + how)
        for value in values
        for line, how in value.cuts
    )


def without_graph(value: Value, line: int, how: str) -> Value:
    """Cut the graph of a value, and of everything in it."""
    items = None if value.items is None else tuple(without_graph(item, line, how) for item in value.items)
    element = None if value.element is None else without_graph(value.element, line, how)
    return replace(value, cuts=value.cuts | {(line, how)}, items=items, element=element)


def relined(value: Value, known: frozenset[Cut], line: int) -> Value:
    """Return a helper's result: what was cut inside counts at the line of the call."""
    cuts = frozenset(cut if cut in known else (line, cut[1]) for cut in value.cuts)
    items = None if value.items is None else tuple(relined(item, known, line) for item in value.items)
    element = None if value.element is None else relined(value.element, known, line)
    return replace(value, cuts=cuts, items=items, element=element)


def joined(*values: Value) -> Value:
    """Return what is known of a value that is one of these: what holds for all of them, and less surely.

    >>> joined(NONE, Value("tensor")).sure
    'likely'
    """
    first, *rest = values
    for other in rest:
        first = _join(first, other)
    return first


def _join(one: Value, other: Value) -> Value:
    if one == other:
        return one
    both = replace(
        UNKNOWN,
        shares=one.shares | other.shares,
        alias=weakest(one.alias, other.alias) if one.shares == other.shares else "possible",
        extreme=one.extreme and other.extreme,
        derives=derived(one, other),
        cuts=cut(one, other),
    )
    if one.kind == other.kind:
        items = None
        if one.items is not None and other.items is not None and one.places == other.places:
            items = tuple(_join(*pair) for pair in zip(one.items, other.items, strict=True))
        element = _join(one.each, other.each) if one.is_container and items is None else None
        sure = weakest(one.sure, other.sure)
        return replace(both, kind=one.kind, sure=sure, items=items, element=element, keys=one.keys if items else ())
    kinds = {one.kind, other.kind}
    if kinds == {"tensor", "none"}:
        tensor = one if one.is_tensor else other
        return replace(both, kind="tensor", sure=weakest(tensor.sure, "likely"), alias=weakest(tensor.alias, "likely"))
    if "tensor" in kinds:
        return replace(both, kind="tensor", sure="possible")
    return both
