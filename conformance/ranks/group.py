"""Manage ranks forked together on this machine: start them, run a test on all, keep deadlines, end them."""

from __future__ import annotations

import contextlib
import selectors
from collections.abc import Collection
from typing import Any

from conformance.core.outcomes import BROKEN, OUTCOMES, RankOutcome
from conformance.ranks import procfs
from conformance.ranks.call_log import matching
from conformance.ranks.client import Forkserver
from conformance.ranks.clock import TICK, Deadline, RunningTime, grace, monotonic, pace, sleep
from conformance.ranks.devices import device_of
from conformance.ranks.hangs import AGAIN, cannot_end, waited_in
from conformance.ranks.owner import Owner
from conformance.ranks.place import Place, this_machine
from conformance.ranks.process import RankProcess, connected
from conformance.ranks.stillness import LONG, LONG_CUT_OFF, Stillness

#: How often to look whether they do anything, how long a stuck rank gets to write its stack, and how long the exit
#: status of ranks that are gone may take to arrive, and of those that are dead (seconds).
LOOK_EVERY, STACK_WAIT, EXIT_WAIT, EXIT_WAIT_DEAD = 0.02, 0.5, 2.0, 15.0
#: Message for a late rank that a signal such as SIGSTOP has stopped: it does not wait for another rank.
STOPPED = ": the process was stopped by a signal"
#: Outcomes after which other ranks may wait in vain. A timeout is one of the whole group.
LEAVES_OTHERS_WAITING = {*BROKEN} - {"timeout"}
NOT_BROKEN = {*OUTCOMES} - {*BROKEN}


class RankGroup(Owner):
    """Ranks that were forked together; they run many tests, until one of these makes them unusable.

    The group ``refuses`` if every rank raised at once in the last test, and no call of the subject has ever returned.

    Close it, or use it as a context manager; its ranks end with it.
    """

    #: How many processes the ranks are, where that is not one for each.
    processes: int | None = None

    def __init__(
        self,
        forkserver: Forkserver,
        size: int,
        backend: str,
        device: str,
        group: bool,
        debug: bool = False,
        place: Place | None = None,
        worker: str = "conformance.ranks.worker",
    ) -> None:
        self.forkserver = forkserver
        self.place = place
        self.size = size
        self.usable = True
        self.refuses = False
        self.hung: Collection[str] = ()
        self.knows_transforms = forkserver.knows_transforms
        self.ranks: list[RankProcess] = []
        self.stillness = Stillness()
        common = {"size": size, "backend": backend, "device": device, "group": group, "debug": debug, "worker": worker}
        with contextlib.ExitStack() as undo:
            self.selector = undo.enter_context(selectors.DefaultSelector())
            self.selector.register(forkserver.socket, selectors.EVENT_READ, None)
            self._fork(common, undo)
            undo.pop_all()

    def _fork(self, common: dict[str, Any], undo: contextlib.ExitStack) -> None:
        """Fork every rank with descriptors of its own; this process keeps the other ends."""
        place = self.place or this_machine(self.size)
        numbers = range(self.processes or self.size) if self.place is None else (place.rank,)
        meeting = {"host": place.host, "port": place.port, "interface": place.interface}
        configurations, descriptors, ends = [], [], []
        with contextlib.ExitStack() as theirs:
            if place.listener is not None:
                theirs.enter_context(place.listener)
            for rank in numbers:
                device = self._device(common["device"], rank if self.place is None else place.local_rank)
                configurations.append({**common, **meeting, "device": device, "rank": rank})
                ours, given = connected(undo, theirs)
                if rank == 0 and common["group"] and place.listener is not None:
                    given.append(place.listener.fileno())
                ends.append(ours)
                descriptors.append(given)
            pids = self.forkserver.fork(configurations, descriptors)
        for rank, pid, own in zip(numbers, pids, ends, strict=True):
            process = RankProcess(rank, pid, *own)
            self.ranks.append(process)
            self.selector.register(process.control, selectors.EVENT_READ, (self._hear, process))
            self.selector.register(process.output_end, selectors.EVENT_READ, (self._drain, process))

    def _device(self, device: str, local_rank: int) -> str:
        if device == "cpu":
            return device
        self.forkserver.wait()
        return device_of(device, local_rank, len(self.forkserver.hardware.accelerators.get(device, ())))

    def request(self, message: dict[str, Any] | None, deadline: float) -> list[RankOutcome]:
        """Put the same request to every rank and wait for all of them, or until the deadline (seconds from now).

        ``None`` waits for the ranks to report that they are ready.
        """
        for rank in self.ranks:
            rank.begin(message)
        late, deadline = self._wait(deadline)
        outcomes = self.outcomes(deadline, late)
        changed = any(rank.reply and rank.reply.get("changed") for rank in self.ranks)
        whole = not (late or changed or any(rank.gone for rank in self.ranks))
        self.usable = whole and in_step(outcomes)
        self.refuses = whole and not self.answered and all(map(_raised_at_once, outcomes))
        return outcomes

    @property
    def is_sound(self) -> bool:
        """Tell whether no rank has ended, or sent anything unexpected, since the last request."""
        for rank in self.ranks:
            rank.hear()
        return not any(rank.gone for rank in self.ranks)

    @property
    def answered(self) -> bool:
        """Tell whether a call of the subject may have returned on some rank: True unless all ranks deny it."""
        return any(reply.get("answered") is not False for reply in self.details())

    def _wait(self, deadline: float) -> tuple[str, float]:
        """Serve the ranks until all are finished; return why some are not, if so, and the deadline that they had."""
        clock, cut_off, in_vain, again = RunningTime(), Stillness(), Stillness(), Stillness()
        broken_at: float | None = None
        late_at = Deadline(deadline)
        while self._unfinished:
            now = clock.read([rank.pid for rank in self._unfinished])
            took = max(rank.call_seconds for rank in self.ranks)
            deadline = late_at.after(now, sum(rank.calls for rank in self.ranks), took)
            elsewhere = self._elsewhere()
            broken = elsewhere or any(rank.outcome in LEAVES_OTHERS_WAITING for rank in self.ranks)
            skipped = [rank.pid for rank in self._waiting_for_one_that_ended({"skip"})]
            if broken_at is None and (broken or in_vain.of(skipped, now)):
                broken_at = now
            dead = elsewhere == "crash" or any(rank.gone for rank in self.ranks)
            hangs_again = again.of(self._hanging_again(), now)
            limit = deadline if broken_at is None else min(deadline, broken_at + grace(broken_at, dead))
            waiting = self._unfinished if dead else self._waiting_for_one_that_ended(LEAVES_OTHERS_WAITING)
            if now >= limit or hangs_again or cut_off.of([rank.pid for rank in waiting], now, LONG_CUT_OFF):
                for rank in self._unfinished:
                    rank.hear_all()
                if not self._unfinished:
                    break
                self._ask_for_stacks()
                return ("timeout" if now >= deadline else AGAIN if hangs_again else "left alone"), deadline
            soon = LOOK_EVERY if broken_at is not None or self._raised else TICK
            for key, _ in self.selector.select(min(limit - now, self.pause, soon)):
                if key.data is None:
                    self.forkserver.read_exit()
                else:
                    handler, rank = key.data
                    handler(rank)
            self._exchange()
            self._tell_who_is_alone(now)
        return "", deadline

    @property
    def _unfinished(self) -> list[RankProcess]:
        return [rank for rank in self.ranks if not rank.finished]

    @property
    def pause(self) -> float:
        """Return how long to wait before checking ranks on other machines, if there are any (seconds)."""
        return float("inf")

    def _elsewhere(self) -> str:
        """Return how a rank on another machine has failed; empty if none has."""
        return ""

    def _hanging_again(self) -> list[int]:
        """Return the unfinished ranks, if one of them is in a collective in which tests are known to hang."""
        known = self.hung and waited_in([rank.collectives for rank in self.ranks]) in self.hung
        return [rank.pid for rank in self._unfinished] if known else []

    def _waiting_for_one_that_ended(self, outcomes: Collection[str]) -> list[RankProcess]:
        """Return the unfinished ranks, if each waits for one with such an outcome: to exchange, or in a collective."""
        ended = [len(rank.collectives) for rank in self.ranks if rank.outcome in outcomes]
        waiting = [rank for rank in self._unfinished if ended and (rank.offered or len(rank.collectives) > max(ended))]
        return waiting if len(waiting) == len(self._unfinished) else []

    def _hear(self, rank: RankProcess) -> None:
        rank.hear()
        if rank.gone:
            self.selector.unregister(rank.control)

    def _drain(self, rank: RankProcess) -> None:
        if not rank.drain():
            self.selector.unregister(rank.output_end)

    def _exchange(self) -> None:
        if all(rank.offered for rank in self.ranks):
            values = [rank.offered.pop(0) for rank in self.ranks]
            for rank in self.ranks:
                rank.put({"values": values})

    @property
    def _raised(self) -> list[RankProcess]:
        return [rank for rank in self._unfinished if rank.raised and rank.offered]

    def _tell_who_is_alone(self, now: float) -> None:
        """Notify ranks that raised and now wait for an exchange, if the others only wait for them."""
        raised = self._raised
        others = [rank for rank in self._unfinished if raised and not rank.offered]
        sure = all(cannot_end(other.collectives, rank.collectives) for other in others for rank in raised)
        if self.stillness.of([rank.pid for rank in others], now, LONG_CUT_OFF if sure else LONG):
            for rank in raised:
                rank.leave_alone()

    def _ask_for_stacks(self) -> None:
        late = [rank for rank in self.ranks if not rank.finished]
        for rank in late:
            rank.note_deadline()
        for rank in late:
            rank.ask_for_stack()
        limit, seen = monotonic() + STACK_WAIT, -1
        while monotonic() < limit:
            written = sum(rank.stack_size for rank in late)
            # On few processors, a rank may be interrupted while it writes its stack.
            if written == seen and all(rank.has_stack for rank in late):
                break
            seen = written
            sleep(0.03)

    def outcomes(self, deadline: float, late: str) -> list[RankOutcome]:
        """Return the outcome of the last request on each rank; ``late`` says why some have not answered."""
        exits_by = monotonic() + EXIT_WAIT
        behind = min((len(rank.collectives) for rank in self.ranks), default=0)
        outcomes = []
        for rank in self.ranks:
            status = self._exit_of(rank, exits_by) if rank.gone else None
            rank.drain()
            if rank.gone:
                outcomes.append(rank.ended(status))
            elif rank.reply is not None:
                outcomes.append(rank.said())
            elif late in {"timeout", AGAIN}:
                outcomes.append(self._late(rank, deadline, late, behind))
            else:
                message = f"was still running after another rank failed{rank.last_collective}"
                outcomes.append(rank.found("timeout", message, bystander=True))
        return outcomes

    def _exit_of(self, rank: RankProcess, by: float) -> int | None:
        status = self.forkserver.exit_of(rank.pid, 0.2 if rank.garbled else max(0.0, by - monotonic()))
        if status is None and procfs.has_ended(rank.pid):  # the forkserver may be importing, and report late
            status = self.forkserver.exit_of(rank.pid, EXIT_WAIT_DEAD)
        rank.exited = status is not None
        return status

    def _late(self, rank: RankProcess, deadline: float, late: str, behind: int) -> RankOutcome:
        """Return the outcome of a late rank. If it entered more collectives than another rank, it only waits."""
        stopped = STOPPED if rank.stopped else ""
        apart = any(len(other.collectives) > behind for other in self.ranks)
        said = stopped + rank.last_collective + ("" if apart else pace(deadline, rank.call_seconds))
        waits = len(rank.collectives) > behind and any(
            not other.finished and len(other.collectives) == behind for other in self.ranks
        )
        said = (AGAIN if late == AGAIN else f"did not finish within {deadline:.3g} s") + said
        return rank.found("timeout", said, bystander=waits and not stopped)

    def details(self) -> list[dict[str, Any]]:
        """Return the ranks' whole replies to the last request."""
        return [rank.reply or {} for rank in self.ranks]

    def close(self) -> None:
        """End every rank and all processes that it started."""
        self.forkserver.kill([rank.pid for rank in self.ranks if not rank.exited])
        for rank in self.ranks:
            rank.close()
        self.selector.close()


def in_step(outcomes: list[RankOutcome]) -> bool:
    """Tell whether the ranks can run another test: not if one failed alone, or their collectives differ."""
    words = {outcome.outcome for outcome in outcomes}
    if len(outcomes) == 1:
        return words <= NOT_BROKEN | {"fail", "error"}
    return words <= NOT_BROKEN | {"fail"} and matching(outcomes)


def _raised_at_once(outcome: RankOutcome) -> bool:
    """Tell whether a rank raised before it entered any collective: it has sent nothing to another rank."""
    return outcome.outcome == "error" and not outcome.collectives
