"""Represent one rank in the controller: its replies, its output, and how it ended."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
from dataclasses import dataclass, field
from typing import Any

from conformance.core.outcomes import BAD_SUBJECT, OUTCOMES, Outcome, RankOutcome, judgements_from
from conformance.core.prose import clipped
from conformance.ranks import procfs
from conformance.ranks.call_log import file_in_memory, read_log
from conformance.ranks.channel import RANK_BROKE, Frames, Garbled, give

#: How much of what a rank prints is kept: the end of it (bytes).
OUTPUT_KEPT = 16_384
#: How much is read at once, so that a rank that prints endlessly does not delay the controller (bytes).
READ_AT_ONCE = 1 << 20
#: How long the controller tries to write to a rank that does not read (seconds).
PUT_LIMIT = 5.0


#: What a reply may contain beside its outcome, by type.
TEXTS, LISTS = ("message", "likely", "spec", "types"), ("changed", "files", "functions")


def is_reply(message: dict[str, Any], loading: bool) -> bool:
    """Tell whether a message has the types of a reply; a subject may have written it.

    >>> is_reply({"outcome": "pass", "changed": ["umask"]}, loading=False)
    True
    >>> is_reply({"outcome": ["pass"]}, loading=False)
    False
    """
    outcome = message.get("outcome")
    return (
        isinstance(outcome, str)
        and (outcome in OUTCOMES or (loading and outcome == BAD_SUBJECT))
        and all(isinstance(message.get(key, ""), str) for key in TEXTS)
        and all(_is_texts(message.get(key, [])) for key in LISTS)
    )


def _is_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(entry, str) for entry in value)


@dataclass
class RankProcess:
    """One rank: its process, its connection, and what has arrived since the last request."""

    rank: int
    pid: int
    control: socket.socket
    output_end: int
    stack_file: int
    log_file: int
    frames: Frames = field(default_factory=Frames)
    serial: int = 0
    output: bytearray = field(default_factory=bytearray)
    reply: dict[str, Any] | None = None
    offered: list[Any] = field(default_factory=list)
    raised: bool = False  # before it offered that value
    seen: list[str] | None = None  # the collectives entered by the deadline
    call_seconds: float = 0.0  # the longest processor time of a call of the subject, of those that were reported
    calls: int = 0  # how many calls that returned were reported: about one in half a second
    loading: bool = False
    broke: str = ""
    gone: bool = False
    exited: bool = False
    garbled: str = ""

    @property
    def finished(self) -> bool:
        """Tell whether the present request has ended."""
        return self.reply is not None or self.gone

    @property
    def outcome(self) -> str:
        """Return the outcome so far; empty while there is none."""
        return "crash" if self.gone else self.reply["outcome"] if self.reply is not None else ""

    def begin(self, message: dict[str, Any] | None) -> None:
        """Send a request; None if the rank sends something by itself, as when it is ready."""
        self.reply = None
        self.output.clear()
        self.offered.clear()
        self.raised = False
        os.ftruncate(self.stack_file, 0)
        os.ftruncate(self.log_file, 0)
        self.seen = None
        if message is not None:
            self.loading = message["op"] == "load"
            self.serial += 1
            self.put({**message, "serial": self.serial})

    def put(self, message: dict[str, Any]) -> None:
        """Send the rank a message; a rank that does not accept it counts as gone."""
        try:
            give(self.control, message, PUT_LIMIT)
        except OSError:
            self.gone = True

    def hear(self) -> bool:
        """Receive messages from a readable socket, or note that the rank is gone. False if nothing arrived."""
        try:
            data = self.control.recv(1 << 16)
            messages = self.frames.feed(data)
        except BlockingIOError:
            return False
        except Garbled as error:
            self._protocol_error(str(error))
            return True
        except OSError:
            data, messages = b"", []
        self.gone = self.gone or not data
        for message in messages:
            self._take(message)
        return True

    def hear_all(self) -> None:
        """Receive everything that has arrived, up to the reply."""
        while not self.finished and self.hear():
            pass

    def _take(self, message: dict[str, Any]) -> None:
        event = message.get("event")
        if event == "exchange" and not self.offered:
            self.offered.append(message.get("value"))
            self.raised = message.get("raised") is True
        elif event == "called" and isinstance(message.get("seconds"), float):
            self.call_seconds = max(self.call_seconds, message["seconds"])
            self.calls += 1
        elif event == "ready" and self.serial == 0:
            self.reply = {"outcome": "pass", "message": ""}
        elif event == "broke" and isinstance(message.get("message"), str):
            self.gone, self.broke = True, message["message"]
        elif event == "done" and message.get("serial") == self.serial and is_reply(message, self.loading):
            self.reply = message
        else:
            self._protocol_error("not a valid message")

    def _protocol_error(self, what: str) -> None:
        self.gone = True
        self.garbled = f"something other than the suite wrote to the rank's connection: {what}"

    def drain(self) -> bool:
        """Read what the rank has printed, and keep the end of it. False if its output is closed."""
        for _ in range(READ_AT_ONCE >> 16):
            try:
                data = os.read(self.output_end, 1 << 16)
            except BlockingIOError:
                return True
            if not data:
                return False
            self.output += data
            del self.output[:-OUTPUT_KEPT]
        return True

    def ask_for_stack(self) -> None:
        """Have the rank write its stack, which works even during a C call that never returns."""
        try:
            os.kill(self.pid, signal.SIGUSR1)
        except ProcessLookupError:
            self.gone = True

    @property
    def has_stack(self) -> bool:
        """Tell whether the stack was written, or never will be."""
        return self.gone or self.stopped or self.stack_size > 0

    @property
    def stack_size(self) -> int:
        """Return the size of the stack written so far, in bytes."""
        return os.fstat(self.stack_file).st_size

    @property
    def stopped(self) -> bool:
        """Tell whether a signal such as SIGSTOP has stopped the process."""
        return procfs.state(self.pid) == b"T"

    @property
    def collectives(self) -> list[str]:
        """Return the collectives that the rank has entered since the last request."""
        return read_log(self.log_file) if self.seen is None else self.seen

    def leave_alone(self) -> None:
        """Notify the rank, which raised, that no other rank will join its exchange."""
        self.offered.clear()
        self.raised = False
        self.put({})

    def note_deadline(self) -> None:
        """Stop counting collectives: the signal for a stack may wake a call that was stuck."""
        self.seen = read_log(self.log_file)

    @property
    def last_collective(self) -> str:
        """Name the last collective that the rank entered, as the end of a sentence."""
        entered = self.collectives
        return f"; the last collective it entered: {entered[-1]}" if entered else ""

    @property
    def last_line(self) -> str:
        """Return the last line that the rank printed."""
        return clipped("".join(self.output.decode("utf-8", "backslashreplace").splitlines()[-1:]))

    def said(self) -> RankOutcome:
        """Return the rank's own outcome; that a subject cannot be tested counts as an error."""
        reply = self.reply or {}
        outcome: Outcome = "error" if reply["outcome"] == BAD_SUBJECT else reply["outcome"]
        changed = tuple(clipped(name, 100) for name in reply.get("changed", ())[:50])
        message, likely = (clipped(reply.get(key) or "") for key in ("message", "likely"))
        judged = judgements_from(reply.get("judgements", []))
        names = tuple(clipped(name, 200) for name in reply.get("functions", ())[:10])
        return self.found(outcome, message, likely=likely, changed=changed, judgements=judged, functions=names)

    def found(self, outcome: Outcome, message: str, **more: Any) -> RankOutcome:
        """Make an outcome of this rank with its stack, output and collectives."""
        return RankOutcome(
            rank=self.rank,
            outcome=outcome,
            message=message,
            output=self.output.decode("utf-8", "backslashreplace"),
            collectives=tuple(self.collectives),
            stack=os.pread(self.stack_file, OUTPUT_KEPT, 0).decode("utf-8", "backslashreplace"),
            **more,
        )

    def ended(self, status: int | None) -> RankOutcome:
        """Return the outcome of a rank that exited; ``status`` is None if it only closed its connection."""
        broke = self.broke or (self.last_line if status == RANK_BROKE else "")
        if broke:
            return self.found("error", f"the suite's own code on this rank raised {broke}", exitcode=status)
        if self.garbled:
            return self.found("crash", self.garbled, exitcode=status)
        if status is None:
            how = "closed its connection to the controller but kept running"
            how = "ended, and nothing says how" if procfs.has_ended(self.pid) else how
            return self.found("crash", f"the rank {how}{self.last_collective}")
        if status >= 0:
            message = f"the process exited with status {status}{self.last_collective}"
            return self.found("crash", message, exitcode=status)
        name = signal.Signals(-status).name if -status in set(signal.Signals) else f"signal {-status}"
        cause = " (by the subject, or by the kernel: out of memory)" if name == "SIGKILL" else ""
        message = f"killed by {name}{cause}{self.last_collective}"
        return self.found("crash", message, exitcode=status, signal=name)

    def close(self) -> None:
        """Close all its descriptors."""
        self.control.close()
        os.close(self.output_end)
        os.close(self.stack_file)
        os.close(self.log_file)


def connected(ours: contextlib.ExitStack, theirs: contextlib.ExitStack) -> tuple[list[Any], list[int]]:
    """Open a rank's connections; return our ends, and its descriptors: control, output, stack and log."""
    control, other = socket.socketpair()
    ours.enter_context(control)
    theirs.enter_context(other)
    read_end, write_end = os.pipe()
    ours.callback(os.close, read_end)
    theirs.callback(os.close, write_end)
    control.setblocking(False)
    os.set_blocking(read_end, False)
    files = []
    for name in ("stack", "log"):
        files.append(file_in_memory(name))
        ours.callback(os.close, files[-1])
    return [control, read_end, *files], [other.fileno(), write_end, *files]
