"""The world as a test body sees it: this rank, the world size, and how ranks exchange values."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, ParamSpec, Protocol, TypeVar
from zlib import crc32

import torch

from conformance.kit.deviations import NotApplicable, RaisedAlone
from conformance.kit.judgement import Judgement
from conformance.kit.tensors import double_dtype

__all__ = ["World"]

Params = ParamSpec("Params")
_Result = TypeVar("_Result")

#: Under this name a test notes how gradients were judged, for the report.
JUDGED = "judged"


def _stays(key: object) -> bool:
    """Whether a name is that of a process group, or of what a test notes for its report."""
    return key == JUDGED or (isinstance(key, tuple) and key[0] == "group")


class LeftAlone(Exception):
    """The other ranks are blocked in a collective that this rank, which raised, will never enter."""


class Exchange(Protocol):
    """Exchanges a value with every rank; ``raised`` tells that this rank has caught an exception before."""

    def __call__(self, value: Any, raised: bool = False) -> list[Any]:
        """Wait for all ranks."""


@contextmanager
def as_plain_data() -> Iterator[None]:
    """Say what can be exchanged, if what is written as JSON in the block is something else.

    Raises:
        TypeError: it is.
    """
    __tracebackhide__ = True
    try:
        yield
    except TypeError as error:
        takes = "numbers, strings, lists, and dictionaries whose keys are strings; pass a tensor as x.tolist()"
        raise TypeError(f"world.exchange takes {takes} ({error})") from None


def alone(value: Any, raised: bool = False) -> list[Any]:
    """Exchange for a world of one rank: returns its own value."""
    return [value]


@dataclass(frozen=True)
class World:
    """One rank's view of its world.

    ``exchange`` gives every rank's value (plain JSON data), in rank order. It goes through the controller and never
    through the process group under test, so it works when the group does not.

    >>> world = World(rank=0, size=1)
    >>> world.exchange("what this rank has to say")
    ['what this rank has to say']
    """

    rank: int = 0
    size: int = 1
    backend: str = "gloo"
    device: str = "cpu"
    exchange: Exchange = field(default=alone, compare=False, repr=False)
    #: Ranks in one process make once what they make of an exchange.
    made_once: Callable[..., Any] | None = field(default=None, compare=False, repr=False)
    #: Waits for some seconds; simulated ranks have a clock of their own.
    sleep: Callable[[float], None] = field(default=time.sleep, compare=False, repr=False)
    #: The coarsest resolution with which a gradient passes; 0 leaves it to the dtype.
    resolution: float = 0.0
    #: What tests found out about the subject, for other tests.
    known: dict[Any, Any] = field(default_factory=dict, compare=False, repr=False)

    def try_call(
        self, function: Callable[Params, _Result], *args: Params.args, **options: Params.kwargs
    ) -> _Result | None:
        """The result of a call that all ranks make; None on every rank if it raises, or returns None, on any.

        Args:
            function: what is called; a subject need not take what it was not made for.
            *args: its arguments.
            **options: its keyword arguments.

        Raises:
            Deviation: the call raised on this rank, and the others wait for it in a collective.

        >>> World().try_call(int, "7"), World().try_call(int, "seven")
        (7, None)
        """
        try:
            result = function(*args, **options)
        except Exception as error:
            self.after_call(error)
            return None
        return None if any(self.after_call(result is None)) else result

    def after_call(self, outcome: bool | Exception) -> list[Any]:
        """Exchange how a call ended that all ranks make: an exception counts as true.

        Args:
            outcome: the exception that it raised on this rank, or anything that others are to know.

        Raises:
            Deviation: it raised on this rank, and the others wait for it in a collective.

        >>> World().after_call(ValueError("no")), World().after_call(False)
        ([True], [False])
        """
        if not isinstance(outcome, Exception):
            return self.exchange(outcome)
        try:
            return self.exchange(True, raised=True)
        except LeftAlone:
            error = RaisedAlone(outcome)
            raise error from outcome

    def together(self, call: Callable[[], _Result]) -> _Result:
        """The result of a call that all ranks make.

        Args:
            call: what is called, without arguments.

        Raises:
            Exception: what it raised on this rank.
            NotApplicable: it raised on another rank.

        >>> World().together(lambda: 7)
        7
        """
        raised: list[Exception] = []

        def noted() -> tuple[_Result]:
            try:
                return (call(),)
            except Exception as error:
                raised.append(error)
                raise

        found = self.try_call(noted)
        if found is None:
            # Popped, for its traceback has this frame: a cycle would keep what the call made.
            raise raised.pop() if raised else NotApplicable("it raises on another rank")
        return found[0]

    def once(self, key: object, find: Callable[[], _Result]) -> _Result:
        """Compute a fact about the subject once; later calls return the first result.

        Args:
            key: identifies the fact.
            find: computes it; every rank of the world calls this, or none.

        >>> world = World()
        >>> world.once("one", lambda: 1), world.once("one", lambda: 2)
        (1, 1)
        """
        if key not in self.known:
            self.known[key] = find()
        found: _Result = self.known[key]
        return found

    def note(self, name: str, judgement: Judgement) -> None:
        """Have the report say how a gradient was judged.

        Args:
            name: whose gradient it is, such as that of input 0.
            judgement: what an oracle says.
        """
        self.known.setdefault(JUDGED, []).append({"of": name, **judgement.trace})

    @contextmanager
    def forgetting(self) -> Iterator[None]:
        """Run with an empty cache, then restore it; process groups are kept."""
        before = dict(self.known)
        self._know({key: found for key, found in before.items() if _stays(key)})
        try:
            yield
        finally:
            self._know(before | {key: found for key, found in self.known.items() if _stays(key)})

    def _know(self, found: dict[Any, Any]) -> None:
        self.known.clear()
        self.known.update(found)

    def seeded(self, rank: int, *key: object) -> torch.Generator:
        """A generator that depends on ``rank`` and ``key`` alone, so that any rank can compute what another one holds.

        >>> world = World()
        >>> bool(torch.rand(1, generator=world.seeded(1, "x")) == torch.rand(1, generator=world.seeded(1, "x")))
        True
        """
        return torch.Generator().manual_seed(crc32(repr((rank, *key)).encode()))

    def tensor(self, rank: int, shape: tuple[int, ...], dtype: torch.dtype, *key: object) -> torch.Tensor:
        """A random tensor that any rank can compute, on this rank's device.

        Args:
            rank: the rank that holds it.
            shape: its shape.
            dtype: any dtype. Numbers are normally distributed; integers are below 100.
            *key: tells tensors of one rank and shape apart.

        >>> World().tensor(0, (2, 3), torch.float64, "x").shape
        torch.Size([2, 3])
        """
        # On the CPU, where the generator is, whatever device a Function has made the default.
        drawn: dict[str, Any] = {"generator": self.seeded(rank, shape, *key), "device": "cpu"}
        if dtype == torch.bool:
            return (torch.rand(shape, **drawn) > 0.5).to(self.device)
        if not (dtype.is_floating_point or dtype.is_complex):
            return torch.randint(0, 100, shape, **drawn).to(self.device, dtype)
        wide = double_dtype(dtype)
        return torch.randn(shape, dtype=wide, **drawn).to(self.device, dtype)
