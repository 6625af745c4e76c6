"""Axes and variations: a sample called another way, by names that can be read and repeated.

An *axis* is one thing about a call that may be another, such as the layout of input 1; a *choice* is what it is there.
A *variation* makes a choice on some axes. What it leaves out is as the author gave it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

__all__ = ["AS_GIVEN", "FAMILIES", "MEANING", "WHOLE", "Pick", "Variation"]

#: Families of axes that give another sample: the plain call there must be right by itself.
MEANING = ("size", "number", "choice", "value")
#: All families, in their order. Where two meet, the earlier one's test judges the pair.
FAMILIES = (
    *MEANING,
    "layout",
    "dtype",
    "parameter",
    "needs",
    "used",
    "gradient layout",
    "gradient form",
    "gradient scale",
)


#: The place of a choice that is about the call as a whole.
WHOLE = -1


@dataclass(frozen=True)
class Pick:
    """A choice on one axis.

    Attributes:
        family: the kind of axis, one of :data:`FAMILIES`.
        of: what it is about, such as ``input 1``; empty for the call as a whole.
        choice: what it is there, in words.
        value: the same for the code that makes the call: a layout, a dtype, a set of places, or another sample.
        at: the place of the input or output that it is about; :data:`WHOLE` for the call as a whole.
    """

    family: str
    of: str
    choice: str
    value: Any = field(default=None, compare=False)
    at: int = WHOLE

    @property
    def axis(self) -> str:
        """The name of the axis."""
        return f"{self.family} of {self.of}" if self.of else self.family

    def __str__(self) -> str:
        return f"{self.axis}: {self.choice}"


@dataclass(frozen=True)
class Variation:
    """Choices on some axes, at most one for each.

    >>> one = Variation((Pick("layout", "input 1", "transposed in memory"), Pick("used", "", "output 0 alone")))
    >>> print(one)
    layout of input 1: transposed in memory; used: output 0 alone
    >>> one.without("used").to_json()
    {'layout of input 1': 'transposed in memory'}
    """

    picks: tuple[Pick, ...] = ()

    def __str__(self) -> str:
        return "; ".join(map(str, self.picks)) or "as given"

    def to_json(self) -> dict[str, str]:
        """Each axis with its choice."""
        return {pick.axis: pick.choice for pick in self.picks}

    def of(self, *families: str) -> tuple[Pick, ...]:
        """The choices on axes of some families."""
        return tuple(pick for pick in self.picks if pick.family in families)

    @property
    def of_the_call(self) -> Variation:
        """The choices that keep the sample, and change how it is called."""
        return Variation(tuple(pick for pick in self.picks if pick.family not in MEANING))

    def without(self, *axes: str) -> Variation:
        """The variation as given on the axes of these names."""
        return Variation(tuple(pick for pick in self.picks if pick.axis not in axes))

    def plus(self, picks: Iterable[Pick]) -> Variation:
        """The variation with more choices; on an axis that has one already the first stays."""
        known = {pick.axis: pick for pick in (*reversed(tuple(picks)), *self.picks)}
        return Variation(tuple(sorted(known.values(), key=lambda pick: (FAMILIES.index(pick.family), pick.axis))))


AS_GIVEN = Variation()
