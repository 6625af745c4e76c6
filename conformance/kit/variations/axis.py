"""Name the ways to vary a sample's call, so that a variation can be reported and repeated.

An *axis* is one aspect of a call that can vary, such as the layout of input 1; a *choice* is its value. A *variation*
makes choices on some axes. All others stay as the author gave them.
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
        of: what it varies, such as ``input 1``; empty for the call as a whole.
        choice: the value in words.
        value: the value itself: a layout, a dtype, a set of places, or a function that derives another sample.
        at: the place of the input or output that it varies; :data:`WHOLE` for the call as a whole.

    >>> print(Pick("number", "scale", "1.7 instead of the default 1"))
    scale: 1.7 instead of the default 1
    """

    family: str
    of: str
    choice: str
    value: Any = field(default=None, compare=False)
    at: int = WHOLE

    @property
    def axis(self) -> str:
        """Return the name of the axis."""
        return f"{self.family} of {self.of}" if self.of else self.family

    def __str__(self) -> str:
        name = self.of if self.family == "number" else self.axis  # "number of scale" would count something
        return f"{name}: {self.choice}"


@dataclass(frozen=True)
class Variation:
    """Choices on some axes, at most one for each.

    >>> one = Variation((Pick("layout", "input 1", "transposed in memory"), Pick("used", "", "output 0 alone")))
    >>> print(one)
    layout of input 1: transposed in memory; used: output 0 alone
    >>> print(one.without("used"))
    layout of input 1: transposed in memory
    """

    picks: tuple[Pick, ...] = ()

    def __str__(self) -> str:
        return "; ".join(map(str, self.picks)) or "as given"

    def of(self, *families: str) -> tuple[Pick, ...]:
        """Return the choices on axes of some families."""
        return tuple(pick for pick in self.picks if pick.family in families)

    @property
    def of_the_call(self) -> Variation:
        """Return the choices that keep the sample and change only how it is called."""
        return Variation(tuple(pick for pick in self.picks if pick.family not in MEANING))

    def without(self, *axes: str) -> Variation:
        """Return the variation without choices on the axes of these names."""
        return Variation(tuple(pick for pick in self.picks if pick.axis not in axes))

    def plus(self, picks: Iterable[Pick]) -> Variation:
        """Return the variation with more choices; an axis that already has one keeps it."""
        known = {pick.axis: pick for pick in (*reversed(tuple(picks)), *self.picks)}
        return Variation(tuple(sorted(known.values(), key=lambda pick: (FAMILIES.index(pick.family), pick.axis))))


AS_GIVEN = Variation()
