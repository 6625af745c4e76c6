"""A world of rank processes on this machine: start it, run a test on every rank, time out, end it."""

from __future__ import annotations

import os
import selectors
import socket
import sys
import time
from dataclasses import dataclass
from typing import Any

from conformance.core.outcomes import RankOutcome
from conformance.ranks.client import Forkserver
from conformance.ranks.devices import device_of
from conformance.ranks.process import RankProcess

#: Once one rank has failed, how long the others may take before they count as stuck because of it: many times as long
#: as that rank took, which a slow machine draws out by itself, and between these bounds (seconds).
GRACE, GRACE_LEAST, GRACE_TIMES = 2.0, 0.5, 20
#: The same once a rank is dead: nothing that the others wait for can come any more.
LAST_WORDS = 0.5
#: How long a stuck rank gets to write its stack (seconds).
STACK_WAIT = 0.5
#: How long the exit status of ranks that are gone may take to arrive (seconds).
EXIT_WAIT = 2.0
EXIT_WAIT_DEAD = 15.0
BROKEN = ("fail", "error", "crash")
GOOD = {"pass", "not-applicable", "skip"}


@dataclass(frozen=True)
class Place:
    """The one rank of a larger world that is forked here, and where its process group meets."""

    rank: int
    local_rank: int
    host: str
    port: int
    interface: str
    listener: socket.socket | None


class World:
    """A number of ranks, forked together; good for many tests until one of them leaves it unusable."""

    def __init__(
        self,
        template: Forkserver,
        size: int,
        backend: str,
        device: str,
        group: bool,
        debug: bool = False,
        place: Place | None = None,
    ) -> None:
        self.template = template
        self.place = place
        self.size = size
        self.usable = True
        self.knows_transforms = template.knows_transforms
        self.selector = selectors.DefaultSelector()
        self.selector.register(template.socket, selectors.EVENT_READ, None)
        self.members: list[RankProcess] = []
        self._fork({"size": size, "backend": backend, "device": device, "group": group, "debug": debug})

    def _fork(self, common: dict[str, Any]) -> None:
        place = self.place or _this_machine(self.size)
        ranks = range(self.size) if self.place is None else (place.rank,)
        meeting = {"host": place.host, "port": place.port, "interface": place.interface}
        configurations, descriptors, ends = [], [], []
        for rank in ranks:
            control, theirs = socket.socketpair()
            read_end, write_end = os.pipe()
            stack_file, log_file = _file_in_memory("stack"), _file_in_memory("log")
            device = device_of(common["device"], rank if self.place is None else place.local_rank, self._gpus)
            configurations.append({**common, **meeting, "device": device, "rank": rank})
            handed = [theirs.detach(), write_end, stack_file, log_file]
            if rank == 0 and common["group"] and place.listener is not None:
                handed.append(os.dup(place.listener.fileno()))
            descriptors.append(handed)
            ends.append((control, read_end, os.dup(stack_file), os.dup(log_file)))
        try:
            pids = self.template.fork(configurations, descriptors)
        except BaseException:
            for own in ends:
                RankProcess(-1, -1, *own).close()
            self.selector.close()
            raise
        finally:
            for descriptor in (number for handed in descriptors for number in handed):
                os.close(descriptor)
            if place.listener is not None:
                place.listener.close()
        for rank, pid, own in zip(ranks, pids, ends, strict=True):
            member = RankProcess(rank, pid, *own)
            os.set_blocking(member.output_end, False)
            member.control.setblocking(False)
            self.members.append(member)
            self.selector.register(member.control, selectors.EVENT_READ, (self._hear, member))
            self.selector.register(member.output_end, selectors.EVENT_READ, (self._drain, member))

    @property
    def _gpus(self) -> int:
        self.template.wait()
        return int(self.template.environment.get("gpus", 0))

    def request(self, message: dict[str, Any] | None, deadline: float) -> list[RankOutcome]:
        """Put the same request to every rank and wait for all of them, or until the deadline (seconds from now).

        ``None`` waits for the ranks to report that they are ready.
        """
        for member in self.members:
            member.begin(message)
        late = self._wait(time.monotonic() + deadline)
        outcomes = self._outcomes(deadline, late)
        changed = any(member.reply and member.reply.get("changed") for member in self.members)
        self.usable = not (late or changed) and in_step(outcomes)
        return outcomes

    def _wait(self, end: float) -> str:
        """Serve the ranks until all are finished; return why some are not, if so."""
        start = time.monotonic()
        broken_at: float | None = None
        while not all(member.finished for member in self.members):
            now = time.monotonic()
            elsewhere = self._elsewhere()
            if broken_at is None and (elsewhere or any(member.outcome in BROKEN for member in self.members)):
                broken_at = now
            dead = elsewhere == "crash" or any(member.gone for member in self.members)
            grace = LAST_WORDS if dead else min(GRACE, max(GRACE_LEAST, GRACE_TIMES * ((broken_at or now) - start)))
            limit = end if broken_at is None else min(end, broken_at + grace)
            if now >= limit:
                self._ask_for_stacks()
                return "timeout" if limit == end else "left alone"
            for key, _ in self.selector.select(min(limit - now, self.pause)):
                if key.data is None:
                    self.template.take_exits()
                else:
                    handler, member = key.data
                    handler(member)
            self._exchange()
        return ""

    @property
    def pause(self) -> float:
        """How long to wait for ranks before looking elsewhere, where there is an elsewhere (seconds)."""
        return float("inf")

    def _elsewhere(self) -> str:
        """How a rank of this world that runs elsewhere has failed; empty while none has."""
        return ""

    def _hear(self, member: RankProcess) -> None:
        member.hear()
        if member.gone:
            self.selector.unregister(member.control)

    def _drain(self, member: RankProcess) -> None:
        if not member.drain():
            self.selector.unregister(member.output_end)

    def _exchange(self) -> None:
        if all(member.offered for member in self.members):
            values = [member.offered.pop(0) for member in self.members]
            for member in self.members:
                member.put({"values": values})

    def _ask_for_stacks(self) -> None:
        late = [member for member in self.members if not member.finished]
        for member in late:
            member.note_deadline()
        for member in late:
            member.ask_for_stack()
        limit = time.monotonic() + STACK_WAIT
        while time.monotonic() < limit and not all(member.has_stack for member in late):
            time.sleep(0.01)

    def _outcomes(self, deadline: float, late: str) -> list[RankOutcome]:
        exits_by = time.monotonic() + EXIT_WAIT
        behind = min((len(member.collectives) for member in self.members), default=0)
        outcomes = []
        for member in self.members:
            member.drain()
            if member.gone:
                outcomes.append(member.ended(self._exit_of(member, exits_by)))
            elif member.reply is not None:
                outcomes.append(member.said())
            elif late == "timeout":
                outcomes.append(self._late(member, deadline, behind))
            else:
                message = f"still running when another rank had failed{member.last_collective}"
                outcomes.append(member.found("timeout", message, bystander=True))
        return outcomes

    def _exit_of(self, member: RankProcess, by: float) -> int | None:
        status = self.template.exit_of(member.pid, 0.2 if member.garbled else max(0.0, by - time.monotonic()))
        # The pristine process may be busy importing, and tell us late.
        if status is None and member.dead:
            status = self.template.exit_of(member.pid, EXIT_WAIT_DEAD)
        member.exited = status is not None
        return status

    def _late(self, member: RankProcess, deadline: float, behind: int) -> RankOutcome:
        """A rank past its deadline. One that entered more collectives than another is the one that waits."""
        stopped = ": a signal had stopped the process" if member.stopped else ""
        message = f"not finished after {deadline:g} s{stopped}{member.last_collective}"
        waits = len(member.collectives) > behind and any(
            not other.finished and len(other.collectives) == behind for other in self.members
        )
        return member.found("timeout", message, bystander=waits and not stopped)

    def details(self) -> list[dict[str, Any]]:
        """The ranks' whole replies to the last request."""
        return [member.reply or {} for member in self.members]

    def close(self) -> None:
        """End every rank and all it started."""
        self.template.kill([member.pid for member in self.members if not member.exited])
        for member in self.members:
            member.close()
        self.selector.close()


def in_step(outcomes: list[RankOutcome]) -> bool:
    """Whether the ranks can go on together: one that raised alone, or elsewhere, has left the others behind."""
    words = {outcome.outcome for outcome in outcomes}
    if words <= GOOD:
        return True
    if len(outcomes) == 1:
        return words <= {"fail", "error"}
    return words <= {"fail", "pass"} and len({outcome.collectives for outcome in outcomes}) == 1


def listening(host: str, size: int) -> socket.socket:
    """A socket on a free port of one address, for a world of some size to meet at."""
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    listener.bind((host, 0))
    listener.listen(size + 8)
    return listener


def _this_machine(size: int) -> Place:
    listener = listening("127.0.0.1", size)
    loopback = "lo" if sys.platform == "linux" else "lo0"
    return Place(0, 0, "127.0.0.1", listener.getsockname()[1], loopback, listener)


def _file_in_memory(name: str) -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create(name)
    import tempfile

    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())
