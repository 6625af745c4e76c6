"""Control the forkserver: start it, fork ranks through it, and replace it if it dies."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from conformance.core import streams
from conformance.core.errors import ForkserverDied, StartFailed, UsageError
from conformance.ranks import limits, procfs, strays
from conformance.ranks.channel import receive, send
from conformance.ranks.clock import monotonic, sleep
from conformance.ranks.hardware import Hardware
from conformance.ranks.limits import PutBack
from conformance.ranks.owner import Owner
from conformance.ranks.preloads import TRANSFORMS

#: Each rank needs four descriptors, rank 0 a listener too; one message carries at most 250.
RANKS_PER_MESSAGE = 60
#: How long importing torch may take, and any answer after that; a machine under load is slow, not broken (seconds).
READY_LIMIT, ANSWER_LIMIT = 300.0, 60.0
#: How often to check whether a silent forkserver was stopped by a signal (seconds).
LOOK_EVERY = 0.5
#: How long the forkserver may take to end everything it forked (seconds).
CLOSE_LIMIT = 5.0
#: Forkservers that were ended and whose exit status has not come: a tracer is notified first, a busy machine is late.
_unreaped: list[subprocess.Popen[bytes]] = []


class Forkserver(Owner):
    """A running forkserver. Close it, or use it as a context manager; every rank ends with it."""

    def __init__(self, library: Path | None = None) -> None:
        """Start it.

        Args:
            library: the library of the emulated device, if ranks need it.
        """
        self.library = library
        self.hardware = Hardware()
        streams.open_missing()
        self.exits: dict[int, int] = {}
        self.not_awaited: set[int] = set()
        self.restarts = 0
        self.environment: dict[str, str] = {}
        self.own_limits = limits.limits_of(0)
        self.strays = strays.Strays()
        self._start()

    def _start(self) -> None:
        if not sys.executable:
            raise UsageError("sys.executable is empty, so no process can be started: start Python by its whole path")
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        library = [str(self.library)] if self.library else []
        with theirs, strays.STARTING:
            self.process = subprocess.Popen(
                # -P: the current directory is not on the path here; only subjects are imported from it.
                [sys.executable, "-P", "-m", "conformance.ranks.forkserver", str(theirs.fileno()), *library],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                env=_environment(),
                start_new_session=True,
            )
            strays.FORKSERVERS.add(self.process.pid)
        self.socket = ours
        self.ready = False
        self.imported: set[str] = set()

    def restart(self) -> None:
        """Replace a forkserver that a subject killed, or that ran out of memory; its ranks died with it."""
        self._end()
        self.exits.clear()
        self.not_awaited.clear()
        self.restarts += 1
        self._start()

    def wait(self) -> None:
        """Wait until torch is imported there.

        Raises:
            ForkserverDied: the process ended instead, for example because torch does not import.
        """
        if not self.ready:
            answer = self._answer("ready", READY_LIMIT)
            self.environment = answer["environment"]
            self.hardware = Hardware.from_json(answer["hardware"])
            self.limits = limits.limits_of(self.process.pid)
            self.ready = True

    def fork(self, configurations: Sequence[dict[str, Any]], descriptors: Sequence[Sequence[int]]) -> list[int]:
        """Fork a process for each configuration, with its own descriptors.

        Raises:
            StartFailed: there is no room for that many processes or open files.
        """
        self.wait()
        pids: list[int] = []
        ranks = list(zip(configurations, descriptors, strict=True))
        for start in range(0, len(ranks), RANKS_PER_MESSAGE):
            part: list[dict[str, Any]] = []
            given: list[int] = []
            for configuration, own in ranks[start : start + RANKS_PER_MESSAGE]:
                names = ("control", "output", "stack", "log", "listener")[: len(own)]
                places = {name: len(given) + place for place, name in enumerate(names)}
                part.append({**configuration, "descriptors": places})
                given.extend(own)
            self._send({"op": "fork", "ranks": part}, given)
            answer = self._answer("pids", ANSWER_LIMIT)
            pids += answer["pids"]
            for pid in answer["pids"]:
                self.exits.pop(pid, None)  # of an earlier process of the same number
                self.not_awaited.discard(pid)
            if "why" in answer:
                self.kill(pids)
                raise StartFailed(answer["why"])
        return pids

    def preload(self, modules: Sequence[str]) -> None:
        """Import more in the forkserver, of what all runs find in one place; earlier ranks import it themselves."""
        alike = ("torch.", "conformance.")
        if missing := [one for one in modules if one.startswith(alike) and one not in self.imported]:
            self.imported.update(missing)
            self._send({"op": "preload", "modules": missing})

    @property
    def knows_transforms(self) -> bool:
        """Tell whether the forkserver has imported torch.func."""
        return self.imported.issuperset(TRANSFORMS)

    def kill(self, pids: Sequence[int]) -> None:
        """Kill processes and all they started."""
        for pid in pids:
            if self.exits.pop(pid, None) is None:
                self.not_awaited.add(pid)
        with contextlib.suppress(ForkserverDied):  # then its ranks are dead as well
            self._send({"op": "kill", "pids": list(pids)})

    def read_exit(self) -> None:
        """Read one message about a process that ended.

        Raises:
            ForkserverDied: the connection is closed.
        """
        self._note(receive(self.socket)[0])

    def exit_of(self, pid: int, within: float) -> int | None:
        """Wait for the exit status of a process that is ending: negative for a signal, None if none arrives."""
        limit = monotonic() + within
        while pid not in self.exits and (left := limit - monotonic()) > 0 and not self.stopped:
            self.socket.settimeout(min(left, LOOK_EVERY))
            with contextlib.suppress(TimeoutError):
                self.read_exit()
        return self.exits.pop(pid, None)

    def expect_alive(self) -> None:
        """Check that the process runs: a test may have killed it and ended before the controller noticed.

        Raises:
            ForkserverDied: it has exited.
        """
        if self.ready and self.ended:
            raise self._lost("exited")

    def put_back(self) -> list[str]:
        """Undo and name what a subject has changed of the controller or the forkserver.

        A forkserver that cannot be repaired is replaced when it is next needed.
        """
        found = []
        own = limits.put_back(0, self.own_limits)
        if own is not PutBack.NOTHING_TO_DO:
            found.append("limits of the controller")
        if own is PutBack.IMPOSSIBLE:  # keep the new limits, so that no later test is blamed for them
            self.own_limits = limits.limits_of(0)
        if self.ready:
            mended = limits.put_back(self.process.pid, self.limits)
            if mended is not PutBack.NOTHING_TO_DO:
                found.append("limits of the forkserver")
            if self.stopped:
                found.append("the forkserver, which a signal stopped")
            if mended is PutBack.IMPOSSIBLE or self.stopped:
                self.process.kill()
                self._reap(CLOSE_LIMIT)
                self.strays.sweep()  # before the next test notes which children are not a subject's
        return found

    @property
    def ended(self) -> bool:
        """Tell whether the process has exited, even if another process traces it and was notified first."""
        return self.process.poll() is not None or procfs.has_ended(self.process.pid)

    def _reap(self, within: float) -> int | None:
        """Wait for the exit status of the ending process; None if none arrives."""
        limit = monotonic() + within
        while (status := self.process.poll()) is None and monotonic() < limit and not self.ended:
            sleep(0.005)
        return status if status is not None else self.process.poll()

    @property
    def stopped(self) -> bool:
        """Tell whether a signal such as SIGSTOP has stopped the process."""
        return procfs.state(self.process.pid) in {b"T", b"t"}

    def rest(self) -> bool:
        """Rest between two runs: end every rank and every process that subjects left, and adopt no orphans.

        Returns:
            True if it can be used again.
        """
        try:
            self.wait()
            self._send({"op": "clear"})
            self._answer("cleared", ANSWER_LIMIT)
        except ForkserverDied:
            return False
        self.exits.clear()
        self.not_awaited.clear()
        self.strays.sweep()
        strays.AT_REST.add(self.process.pid)
        self.strays.close()
        return True

    def wake(self) -> None:
        """Begin another run."""
        strays.AT_REST.discard(self.process.pid)
        self.strays = strays.Strays()

    def close(self) -> None:
        """End the process, its ranks, and every process that subjects left running."""
        self._end()
        self.strays.close()

    def _end(self) -> None:
        if self.process.poll() is None:
            self.strays.note()
        self.socket.close()
        if not self.ready:  # it is still importing torch, and has forked nothing
            self.process.kill()
        if self._reap(0 if self.stopped else CLOSE_LIMIT) is None and not self.ended:
            self.process.kill()
            self._reap(CLOSE_LIMIT)
        _unreaped[:] = [process for process in (*_unreaped, self.process) if process.poll() is None]
        strays.FORKSERVERS.discard(self.process.pid)
        strays.AT_REST.discard(self.process.pid)
        self.strays.sweep()

    def _send(self, message: dict[str, Any], descriptors: Sequence[int] = ()) -> None:
        self.socket.settimeout(ANSWER_LIMIT)
        try:
            send(self.socket, message, descriptors)
        except TimeoutError:
            raise self._lost(f"took no request for {ANSWER_LIMIT:g} s") from None
        except OSError:
            self._note(None)

    def _answer(self, key: str, within: float) -> dict[str, Any]:
        limit = monotonic() + within
        while monotonic() < limit:
            self.socket.settimeout(LOOK_EVERY)
            try:
                message = receive(self.socket)[0]
            except TimeoutError:
                if self.stopped:
                    raise self._lost("was stopped by a signal") from None
                continue
            if message is not None and key in message:
                return message
            self._note(message)
        raise self._lost(f"gave no answer for {within:g} s")

    def _note(self, message: dict[str, Any] | None) -> None:
        if message is None:
            raise self._lost("exited")
        if message["exit"] in self.not_awaited:
            self.not_awaited.remove(message["exit"])
        else:
            self.exits[message["exit"]] = message["status"]

    def _lost(self, how: str) -> ForkserverDied:
        """End a forkserver that cannot be used any more, and return the error that says so."""
        status = self._reap(CLOSE_LIMIT if how == "exited" else 0)
        if status is None and not self.ended:
            self.process.kill()
        advice = "" if self.ready else "; does `import torch` work?"
        return ForkserverDied(f"the forkserver {how} (exit status {'unknown' if status is None else status}){advice}")


def _environment() -> dict[str, str]:
    """Give each numerical library one thread and put this package first on the path, without the current directory."""
    package_root = str(Path(__file__).parents[2])
    path = [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry not in {"", "."}]
    nvml = {"PYTORCH_NVML_BASED_CUDA_CHECK": "1"}  # asking for GPUs, in a run on the CPU, must not start them
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    return nvml | os.environ | threads | {"PYTHONPATH": os.pathsep.join([package_root, *path])}
