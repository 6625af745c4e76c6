"""Exchange values between simulated ranks, outside of any process group."""

from __future__ import annotations

import json
import marshal
from collections.abc import Callable
from dataclasses import dataclass, field
from types import CodeType
from typing import Any, TypeVar

from conformance.kit.world import LeftAlone, as_plain_data
from conformance.ranks.simulated.scheduler import Scheduler

_Made = TypeVar("_Made")


@dataclass
class Round:
    """One exchange: each rank's value, which ranks had raised, and which were notified that no other will join."""

    values: dict[int, bytes] = field(default_factory=dict)
    raised: set[int] = field(default_factory=set)
    left: set[int] = field(default_factory=set)
    #: What the ranks make of the values, by the code that makes it.
    made: dict[CodeType, Any] = field(default_factory=dict)


class Exchanges:
    """The exchanges of a run, one after the other."""

    scheduler: Scheduler

    def __init__(self, size: int) -> None:
        self.size = size
        self.clear()

    def clear(self) -> None:
        """Begin a run."""
        self.round = Round()

    def exchange(self, value: Any, raised: bool = False) -> list[Any]:
        """Exchange values between all ranks.

        Raises:
            LeftAlone: this rank has raised, and the others wait for it elsewhere.
        """
        __tracebackhide__ = True  # pytest shows the line of the test that exchanges
        return self._read(self._joined(value, raised))

    def made_once(self, value: Any, make: Callable[[list[Any]], _Made]) -> _Made:
        """Exchange values between all ranks; what is made of them is the same on each, so the first one makes it."""
        joined = self._joined(value, False)
        code = make.__code__
        if code not in joined.made:
            joined.made[code] = make(self._read(joined))
        found: _Made = joined.made[code]
        return found

    def leave_alone(self) -> bool:
        """Notify ranks that raised and now wait for an exchange, if the others only wait for them."""
        found = self.round.raised & set(self.round.values)
        self.round.left |= found
        for rank in found:
            del self.round.values[rank]
        self.round.raised -= found
        return bool(found)

    def _joined(self, value: Any, raised: bool) -> Round:
        __tracebackhide__ = True
        rank, joined = self.scheduler.current, self.round
        # As JSON, so that what arrives is what a real rank gets; read once, and copied for each rank in a quicker way.
        with as_plain_data():
            joined.values[rank] = marshal.dumps(json.loads(json.dumps(value)))
        if raised:
            joined.raised.add(rank)
        if len(joined.values) == self.size:
            self.round = Round()
        is_over = lambda: len(joined.values) == self.size or rank in joined.left  # noqa: E731
        self.scheduler.wait("an exchange of the suite", is_over)
        if rank in joined.left:
            joined.left.discard(rank)
            raise LeftAlone
        return joined

    def _read(self, joined: Round) -> list[Any]:
        return [marshal.loads(joined.values[each]) for each in range(self.size)]
