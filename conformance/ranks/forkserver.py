"""The process that every rank is forked from: it has imported torch and the suite, and done nothing else.

It runs as ``python -P -m conformance.ranks.forkserver FD [LIBRARY]``. FD is one end of a Unix socket pair; requests are
JSON, and file descriptors are sent with them. LIBRARY is the library of the emulated device, if ranks need it. When
that socket closes, everything that was forked is killed: no rank outlives the controller.
"""

from __future__ import annotations

import importlib
import os
import resource
import selectors
import signal
import socket
import sys
import time
import traceback
import warnings
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from conformance.ranks import hardware
from conformance.ranks.channel import RANK_BROKE, last_words, receive, send
from conformance.ranks.preloads import OPTIONAL, PRELOAD, importing, preload
from conformance.ranks.procfs import PR_SET_CHILD_SUBREAPER, PR_SET_PDEATHSIG, children, prctl

#: How long killed processes may take to end (seconds).
END_LIMIT = 3.0


def _go_first_when_memory_ends() -> None:
    """Have the kernel kill a rank, not the controller, if the machine runs out of memory."""
    with suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")


def _wait_in_line_for_a_processor() -> None:
    """Keep threads of this rank from preempting a process that computes.

    A thread of Gloo polls for bytes of another rank. If it preempts the slower rank, for which it waits, both lose: on
    two processors, collectives of four ranks took eight times as long.
    """
    if hasattr(os, "SCHED_BATCH") and os.sched_getscheduler(0) == os.SCHED_OTHER:
        with suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


@dataclass(frozen=True)
class Child:
    """A forked rank and the connection that asked for it."""

    pid: int
    owner: socket.socket


class Server:
    """Serve requests to fork, and report to each requester how its ranks ended."""

    def __init__(self, primary: socket.socket) -> None:
        self.primary = primary
        self.children: dict[int, Child] = {}
        self.selector = selectors.DefaultSelector()
        self.selector.register(primary, selectors.EVENT_READ, self.serve)
        self.wakeup, wake = os.pipe()
        for end in (self.wakeup, wake):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self.wake = wake
        self.selector.register(self.wakeup, selectors.EVENT_READ, self.reap)

    def run(self) -> None:
        """Serve until the primary connection closes."""
        while self.primary.fileno() >= 0:
            for key, _ in self.selector.select():
                key.data(key.fileobj)

    def serve(self, sock: socket.socket) -> None:
        """Answer one request of a connection."""
        try:
            message, descriptors = receive(sock)
        except OSError as error:  # the request has more descriptors than may be open
            send(sock, _refused(error))
            return
        if message is None:
            self.drop(sock)
        elif message["op"] == "fork":
            send(sock, self.fork(sock, message, descriptors))
        elif message["op"] == "preload":
            preload(message["modules"])
        elif message["op"] == "kill":
            self.kill(message["pids"])
        elif message["op"] == "clear":
            self.end()
            send(sock, {"cleared": os.getpid()})

    def drop(self, sock: socket.socket) -> None:
        """End the ranks of a requester that closed its connection."""
        self.kill([child.pid for child in self.children.values() if child.owner is sock])
        self.selector.unregister(sock)
        sock.close()

    def fork(self, owner: socket.socket, message: dict[str, Any], descriptors: list[int]) -> dict[str, Any]:
        """Fork one rank for each configuration, with its share of the descriptors."""
        answer: dict[str, Any] = {"pids": []}
        try:
            for configuration in message["ranks"]:
                own = {name: descriptors[place] for name, place in configuration["descriptors"].items()}
                pid = os.fork()
                if pid == 0:
                    self.become_rank(configuration, own, descriptors)
                self.children[pid] = Child(pid, owner)
                answer["pids"].append(pid)
        except OSError as error:  # no more processes, or no memory for one
            answer |= _refused(error, answer["pids"])
        for descriptor in descriptors:
            os.close(descriptor)
        return answer

    def become_rank(self, configuration: dict[str, Any], own: dict[str, int], descriptors: list[int]) -> None:
        """Run in the child: close everything of the forkserver, then be a rank until the controller ends it."""
        status = RANK_BROKE
        try:
            os.setsid()
            prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            _go_first_when_memory_ends()
            _wait_in_line_for_a_processor()
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a crash leaves no file behind
            signal.set_wakeup_fd(-1)
            for number in (signal.SIGCHLD, signal.SIGTERM):
                signal.signal(number, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            for key in list(self.selector.get_map().values()):
                if isinstance(key.fileobj, int):
                    os.close(key.fileobj)
                else:
                    key.fileobj.close()  # type: ignore[attr-defined]
            self.selector.close()
            os.close(self.wake)
            for descriptor in set(descriptors) - set(own.values()):
                os.close(descriptor)
            rank = importlib.import_module(configuration["worker"])
            status = rank.main(configuration, own)
        except BaseException as error:
            with suppress(BaseException):
                last_words(own["control"], f"{type(error).__name__}: {error}")
            with suppress(BaseException):
                traceback.print_exc()
        finally:
            os._exit(status)

    def reap(self, _: object) -> None:
        """Report to requesters which of their ranks ended, and how; end processes that these ranks left."""
        with suppress(BlockingIOError):
            os.read(self.wakeup, 4096)
        while True:
            try:
                ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            if ended is None:
                return
            pid = ended.si_pid
            child = self.children.pop(pid, None)
            if child is not None:
                self.end_group(pid)
            _, status = os.waitpid(pid, 0)
            if child is not None:
                self.tell(child, status)
                self.end_strays()

    def tell(self, child: Child, status: int) -> None:
        """Report an exit status; the requester may be gone."""
        if child.owner.fileno() >= 0:
            with suppress(OSError):
                send(child.owner, {"exit": child.pid, "status": os.waitstatus_to_exitcode(status)})

    def kill(self, pids: Sequence[int]) -> None:
        """Kill ranks with their process groups."""
        for pid in pids:
            if pid in self.children:
                self.end_group(pid)

    @staticmethod
    def end_group(pid: int) -> None:
        """Kill a rank and every process of its group."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)

    def end_strays(self) -> None:
        """Kill processes that a dead rank started: the kernel made them children of this process."""
        for pid in children(os.getpid()) - set(self.children):
            self.end_group(pid)

    def end(self) -> None:
        """Kill every rank and every process that ranks left, and wait until all have ended."""
        self.kill(list(self.children))
        limit = time.monotonic() + END_LIMIT
        while time.monotonic() < limit:
            try:
                ended, _ = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if ended:
                self.children.pop(ended, None)
            else:
                self.end_strays()
                time.sleep(0.005)


def _refused(error: OSError, pids: Sequence[int] = ()) -> dict[str, Any]:
    return {"pids": list(pids), "why": f"cannot fork: {error.strerror}"}


def main(descriptor: int, library: str = "") -> None:
    """Import what ranks need, report what this machine has, and serve."""
    primary = socket.socket(fileno=descriptor)
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    # If the controller dies while this process is stopped, continue: the connection is closed, so the ranks are ended.
    prctl(PR_SET_PDEATHSIG, signal.SIGCONT)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with importing():
        for name in PRELOAD:
            importlib.import_module(name)
        for name in OPTIONAL:
            with suppress(ImportError):
                importlib.import_module(name)
    import torch

    if library:
        from conformance.emulated import load

        load(Path(library))
    torch.set_num_threads(1)
    # Python 3.12 warns of a fork while threads exist, such as the idle ones of NumPy's OpenBLAS.
    warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)
    server = Server(primary)
    there = hardware.detect()
    facts = {"torch": torch.__version__, "cuda": torch.version.cuda or ""}
    with suppress(BrokenPipeError):  # the run was called off before we were ready
        send(primary, {"ready": os.getpid(), "environment": facts, "hardware": there.to_json()})
    server.run()
    server.end()
    os._exit(0)  # a normal exit of the interpreter takes a while, and some libraries print warnings


if __name__ == "__main__":
    main(int(sys.argv[1]), *sys.argv[2:])
