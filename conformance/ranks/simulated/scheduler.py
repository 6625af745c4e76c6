"""Run threads one at a time, each until it has to wait; a deadlock is proved at once."""

from __future__ import annotations

import os
import random
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from types import FrameType

from conformance.core.outcomes import PROVED
from conformance.kit.frames import foreign
from conformance.ranks.simulated import state

#: How long to wait for a rank that computes, if the run is interrupted (seconds).
LAST_WAIT = 2.0
LIBRARY = os.path.dirname(threading.__file__) + os.sep


class Stuck(BaseException):
    """Raised in a rank whose wait can never end; an ``except Exception`` of a subject does not catch it."""


@dataclass
class Turn:
    """One rank's thread: what it waits for, and its own state of the process."""

    rank: int
    lock: threading.Lock = field(default_factory=threading.Lock)
    thread: threading.Thread | None = None
    own: state.Saved | None = None
    ended: bool = True
    what: object = ""
    ready: Callable[[], bool] | None = None
    wakes: float = 0.0
    #: True if it had not ended when no rank could go on.
    is_stuck: bool = False


class Scheduler:
    """Run a job on every rank, one rank at a time.

    Args:
        size: number of ranks.
        seed: seed of a random order; None for the fixed order: each rank in turn, until it has to wait.
        on_idle: called when every rank waits and time advances: messages in transit arrive.
        on_stuck: called when no rank can go on; returns whether that has released one.
    """

    def __init__(
        self, size: int, seed: int | None, on_idle: Callable[[], object], on_stuck: Callable[[], bool]
    ) -> None:
        self.turns = [Turn(rank) for rank in range(size)]
        self.seed = seed
        self.on_idle, self.on_stuck = on_idle, on_stuck
        self.current = 0
        self.clock = 0.0
        self.proof = ""
        self.job: Callable[[int], object] | None = None
        self._home = threading.Lock()
        self._home.acquire()
        self._outside = state.begin()
        state.put(self._outside)
        self._draws: random.Random | None = None
        for turn in self.turns:
            turn.lock.acquire()
            turn.thread = threading.Thread(target=self._live, args=(turn,), name=f"rank {turn.rank}", daemon=True)
            turn.thread.start()

    def run(self, job: Callable[[int], object] | None) -> None:
        """Run ``job(rank)`` on every rank and wait for all; None ends the threads."""
        self.job, self.proof, self.clock = job, "", 0.0
        self._draws = None if self.seed is None else random.Random(self.seed)
        for turn in self.turns:
            turn.ended, turn.ready, turn.wakes, turn.is_stuck = False, None, 0.0, False
        self._outside = state.begin()
        for turn in self.turns:
            turn.own = turn.own and state.with_later_modules(turn.own, self._outside)
        self.current = len(self.turns) - 1  # rank 0 comes next
        try:
            self._wake(self._next())
            self._home.acquire()
        except BaseException:  # interrupted: waiting ranks raise at once, the one that computes at its next wait
            self.stop("interrupted")
            self._home.acquire(timeout=LAST_WAIT)
            raise
        finally:
            state.put(self._outside)

    def wait(self, what: object, ready: Callable[[], bool], seconds: float = 0.0) -> None:
        """Let other ranks go on until something is ready.

        Args:
            what: what this rank waits for; a message shows its text.
            ready: returns whether the wait is over.
            seconds: how long to sleep, on a clock that advances only when no rank can run.

        Raises:
            Stuck: the wait can never end.
        """
        turn = self.turns[self.current]
        if not self.proof and (self._draws or seconds or not ready()):
            turn.what, turn.ready, turn.wakes = what, ready, self.clock + seconds
            following = self._next()
            if following is not turn:
                turn.own = state.taken()
                self._wake(following)
                turn.lock.acquire()
                state.put(turn.own)
            turn.ready = None
        if self.proof:
            raise Stuck(self.proof)

    @property
    def stuck(self) -> set[int]:
        """Return the ranks that had not ended when no rank could go on."""
        return {turn.rank for turn in self.turns if turn.is_stuck}

    def stop(self, proof: str) -> None:
        """Make every rank raise in its present wait, or in its next one."""
        if not self.proof:
            for turn in self.turns:
                turn.is_stuck = not turn.ended
            self.proof = proof or self._where()

    def _live(self, turn: Turn) -> None:
        while True:
            turn.lock.acquire()
            if turn.own is None:
                turn.own = state.fresh(self._outside)
            state.put(turn.own)
            if self.job is not None:
                self.job(turn.rank)
            turn.own, turn.ended = state.taken(), True
            last = self.job is None
            if all(other.ended for other in self.turns):
                self._home.release()
            else:
                self._wake(self._next())
            if last:
                return

    def _wake(self, turn: Turn) -> None:
        self.current = turn.rank
        turn.lock.release()

    def _next(self) -> Turn:
        """Choose the next rank: if all sleep, time advances; if none can ever go on, they raise."""
        at = self.current + 1
        in_turn = (*self.turns[at:], *self.turns[:at])
        if not self._draws and (first := next(filter(self._is_able, in_turn), None)):
            return first
        living = [turn for turn in in_turn if not turn.ended]
        able = [turn for turn in living if self._is_able(turn)]
        while not able:
            if sleeping := [turn.wakes for turn in living if turn.wakes > self.clock]:
                self.clock = min(sleeping)
                self.on_idle()
            elif not self.on_stuck():
                self.stop("")
            able = [turn for turn in living if self._is_able(turn)]
        return self._draws.choice(able) if self._draws else able[0]

    def _is_able(self, turn: Turn) -> bool:
        if turn.ended:
            return False
        return bool(self.proof) or turn.ready is None or (turn.wakes <= self.clock and turn.ready())

    def place_of(self, rank: int) -> str:
        """Return the innermost line of the user's code on a rank, after a comma; empty if there is none."""
        thread = self.turns[rank].thread
        frame: FrameType | None = sys._current_frames().get(thread.ident or 0) if thread else None
        while frame is not None:
            file = frame.f_code.co_filename
            if not foreign(file) and (not file.startswith(LIBRARY) or "site-packages" in file):
                return f", {os.path.basename(file)}:{frame.f_lineno}, in {frame.f_code.co_name}"
            frame = frame.f_back
        return ""

    def _where(self) -> str:
        lines = [
            f"rank {turn.rank} has returned" if turn.ended else f"rank {turn.rank} waits in {turn.what}{place}"
            for turn in self.turns
            for place in [self.place_of(turn.rank)]
        ]
        return PROVED + "; ".join(lines)
