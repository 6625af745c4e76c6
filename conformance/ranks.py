"""A world of rank processes on this machine: start it, run a test on every rank, time out, end it, start anew."""

from __future__ import annotations

import os
import selectors
import signal
import socket
import time
from dataclasses import dataclass, field
from typing import Any

from conformance.outcome import RankOutcome, clipped
from conformance.pristine import Template
from conformance.wire import Frames, Garbled, pack

#: Once one rank has failed, how long the others may take before they count as stuck because of it (seconds).
GRACE = 2.0
#: How long a stuck rank gets to write its stack (seconds).
STACK_WAIT = 0.5
OUTPUT_KEPT = 16_384
BROKEN = ("fail", "error", "crash")


@dataclass
class Member:
    """One rank, as the controller knows it."""

    rank: int
    pid: int
    control: socket.socket
    output_end: int
    stack_file: int
    frames: Frames = field(default_factory=Frames)
    output: bytearray = field(default_factory=bytearray)
    collectives: list[str] = field(default_factory=list)
    reply: dict[str, Any] | None = None
    offered: list[Any] = field(default_factory=list)
    gone: bool = False
    garbled: str = ""

    @property
    def finished(self) -> bool:
        """Whether nothing more is to come of the present request."""
        return self.reply is not None or self.gone

    @property
    def outcome(self) -> str:
        """What is known so far."""
        return "crash" if self.gone else self.reply["outcome"] if self.reply is not None else ""


class World:
    """A number of ranks, forked together; good for many tests until one of them leaves it unusable."""

    def __init__(
        self, template: Template, size: int, backend: str, device: str, group: bool, debug: bool = False
    ) -> None:
        self.template = template
        self.size = size
        self.usable = True
        self.selector = selectors.DefaultSelector()
        self.selector.register(template.socket, selectors.EVENT_READ, None)
        self.members: list[Member] = []
        self._fork({"size": size, "backend": backend, "device": device, "group": group, "debug": debug})

    def _fork(self, common: dict[str, Any]) -> None:
        listener = socket.socket(socket.AF_INET)
        listener.bind(("127.0.0.1", 0))
        listener.listen(self.size + 8)
        configurations, descriptors, ends = [], [], []
        for rank in range(self.size):
            ours, theirs = socket.socketpair()
            read_end, write_end = os.pipe()
            stack_file = os.memfd_create("stack") if hasattr(os, "memfd_create") else _unnamed_file()
            device = common["device"].replace("{rank}", str(rank))
            configurations.append({**common, "device": device, "rank": rank, "port": listener.getsockname()[1]})
            handed = [theirs.detach(), write_end, stack_file]
            if rank == 0 and common["group"]:
                handed.append(os.dup(listener.fileno()))
            descriptors.append(handed)
            ends.append((ours, read_end, os.dup(stack_file)))
        try:
            pids = self.template.fork(configurations, descriptors)
        finally:
            for descriptor in (number for handed in descriptors for number in handed):
                os.close(descriptor)
            listener.close()
        for rank, (pid, (control, output_end, stack_file)) in enumerate(zip(pids, ends, strict=True)):
            member = Member(rank, pid, control, output_end, stack_file)
            os.set_blocking(output_end, False)
            control.setblocking(False)
            self.members.append(member)
            self.selector.register(control, selectors.EVENT_READ, (self._read_control, member))
            self.selector.register(output_end, selectors.EVENT_READ, (self._read_output, member))

    def request(self, message: dict[str, Any] | None, deadline: float) -> list[RankOutcome]:
        """Put the same request to every rank and wait for all of them, or until the deadline (seconds from now).

        ``None`` waits for the ranks to report that they are ready.
        """
        for member in self.members:
            member.reply = None
            member.output.clear()
            member.collectives.clear()
            member.offered.clear()
            os.ftruncate(member.stack_file, 0)
            if message is not None:
                self._put(member, message)
        late = self._wait(time.monotonic() + deadline)
        outcomes = [self._outcome(member, deadline, late) for member in self.members]
        self.usable = all(outcome.outcome in {"pass", "not-applicable", "skip"} for outcome in outcomes) and not any(
            member.reply and member.reply.get("changed") for member in self.members
        )
        if late or any(member.gone for member in self.members):
            self.usable = False
        return outcomes

    def _put(self, member: Member, message: dict[str, Any]) -> None:
        try:
            member.control.setblocking(True)
            member.control.sendall(pack(message))
            member.control.setblocking(False)
        except OSError:
            member.gone = True

    def _wait(self, end: float) -> str:
        """Serve the ranks until all are finished; return why some are not, if so."""
        broken_at: float | None = None
        while not all(member.finished for member in self.members):
            now = time.monotonic()
            if broken_at is None and any(member.outcome in BROKEN for member in self.members):
                broken_at = now
            limit = end if broken_at is None else min(end, broken_at + GRACE)
            if now >= limit:
                self._ask_for_stacks()
                return "timeout" if limit == end else "left alone"
            for key, _ in self.selector.select(limit - now):
                if key.data is None:
                    self.template.take_exits()
                else:
                    handler, member = key.data
                    handler(member)
            self._exchange()
        return ""

    def _read_control(self, member: Member) -> None:
        try:
            data = member.control.recv(1 << 16)
            messages = member.frames.feed(data)
        except BlockingIOError:
            return
        except (OSError, Garbled) as error:
            member.garbled = f"something other than the suite wrote to the rank's connection: {error}"
            data, messages = b"", []
        if not data:
            self._lose(member)
        for message in messages:
            self._take(member, message)

    def _take(self, member: Member, message: dict[str, Any]) -> None:
        event = message.get("event")
        if event == "collective":
            member.collectives.append(clipped(str(message.get("text")), 300))
            del member.collectives[:-256]
        elif event == "exchange":
            member.offered.append(message.get("value"))
        elif event == "ready":
            member.reply = {"outcome": "pass", "message": ""}
        elif event == "done" and isinstance(message.get("outcome"), str):
            member.reply = message
        else:
            member.garbled = "something other than the suite wrote to the rank's connection"
            self._lose(member)

    def _lose(self, member: Member) -> None:
        member.gone = True
        self.selector.unregister(member.control)
        self._read_output(member)

    def _exchange(self) -> None:
        if all(member.offered for member in self.members):
            values = [member.offered.pop(0) for member in self.members]
            for member in self.members:
                self._put(member, {"values": values})

    def _read_output(self, member: Member) -> None:
        while True:
            try:
                data = os.read(member.output_end, 1 << 16)
            except BlockingIOError:
                return
            if not data:
                if member.output_end in self.selector.get_map():
                    self.selector.unregister(member.output_end)
                return
            member.output += data
            del member.output[:-OUTPUT_KEPT]

    def _ask_for_stacks(self) -> None:
        late = [member for member in self.members if not member.finished]
        for member in late:
            try:
                os.kill(member.pid, signal.SIGUSR1)
            except ProcessLookupError:
                member.gone = True
        limit = time.monotonic() + STACK_WAIT
        while time.monotonic() < limit and not all(_has_stack(member) for member in late):
            time.sleep(0.01)

    def _outcome(self, member: Member, deadline: float, late: str) -> RankOutcome:
        self._read_output(member)
        seen: dict[str, Any] = {
            "rank": member.rank,
            "output": member.output.decode("utf-8", "backslashreplace"),
            "collectives": tuple(member.collectives),
            "stack": os.pread(member.stack_file, OUTPUT_KEPT, 0).decode("utf-8", "backslashreplace"),
        }
        if member.gone:
            return _crashed(self.template.exit_of(member.pid, 0.2 if member.garbled else 5.0), member.garbled, seen)
        if member.reply is not None:
            reply = member.reply
            return RankOutcome(
                outcome=reply["outcome"],
                message=str(reply.get("message", "")),
                likely=str(reply.get("likely", "")),
                **seen,
            )
        inside = f" in {member.collectives[-1]}" if member.collectives else ""
        if late == "timeout":
            return RankOutcome(outcome="timeout", message=f"not finished after {deadline:g} s{inside}", **seen)
        message = f"still waiting{inside} {GRACE:g} s after another rank had failed"
        return RankOutcome(outcome="timeout", message=message, left_alone=True, **seen)

    def details(self) -> list[dict[str, Any]]:
        """The ranks' whole replies to the last request."""
        return [member.reply or {} for member in self.members]

    def close(self) -> None:
        """End every rank and all it started."""
        self.template.kill([member.pid for member in self.members])
        for member in self.members:
            member.control.close()
            os.close(member.output_end)
            os.close(member.stack_file)
        self.selector.close()


def _unnamed_file() -> int:
    import tempfile

    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def _has_stack(member: Member) -> bool:
    return os.fstat(member.stack_file).st_size > 0 or member.gone


def _crashed(status: int | None, garbled: str, seen: dict[str, Any]) -> RankOutcome:
    if garbled:
        return RankOutcome(outcome="crash", message=garbled, exitcode=status, **seen)
    if status is None:
        return RankOutcome(outcome="crash", message="the rank closed its connection to the suite", **seen)
    if status < 0:
        name = signal.Signals(-status).name if -status in set(signal.Signals) else f"signal {-status}"
        return RankOutcome(outcome="crash", message=f"killed by {name}", exitcode=status, signal=name, **seen)
    return RankOutcome(outcome="crash", message=f"the process exited with status {status}", exitcode=status, **seen)
