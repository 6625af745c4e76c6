"""The controller's end of the pristine process that ranks are forked from."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from conformance.core.errors import ForkserverDied
from conformance.ranks.channel import receive, send
from conformance.ranks.preloads import TRANSFORMS

#: Four descriptors a rank and rank 0's listener, in one message that takes 250.
RANKS_A_MESSAGE = 60


class Forkserver:
    """The controller's end of the pristine process that ranks are forked from."""

    def __init__(self) -> None:
        self.exits: dict[int, int] = {}
        self.unwanted: set[int] = set()
        self.restarts = 0
        self._start()

    def _start(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        environment = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
        package_root = str(Path(__file__).parents[2])
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, [package_root, os.environ.get("PYTHONPATH", "")]))
        self.process: subprocess.Popen[bytes] | None = subprocess.Popen(
            [sys.executable, "-m", "conformance.ranks.forkserver", str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            env=environment,
            start_new_session=True,
        )
        theirs.close()
        self.socket = ours
        self.environment: dict[str, str] = {}
        self._ready = False
        self.imported: set[str] = set()

    def restart(self) -> None:
        """Start anew after the process was killed, by a subject or for want of memory; its ranks died with it."""
        self.close()
        self.exits.clear()
        self.unwanted.clear()
        self.restarts += 1
        self._start()

    def wait(self) -> None:
        """Wait until torch is imported there.

        Raises:
            ForkserverDied: the process ended instead, for example because torch does not import.
        """
        if not self._ready:
            self.environment = self._answer("ready")["environment"]
            self._ready = True

    def fork(self, configurations: Sequence[dict[str, Any]], descriptors: Sequence[Sequence[int]]) -> list[int]:
        """Fork a process for each configuration, with its own descriptors."""
        self.wait()
        pids: list[int] = []
        for start in range(0, len(configurations), RANKS_A_MESSAGE):
            part: list[dict[str, Any]] = []
            handed: list[int] = []
            for configuration, own in zip(configurations[start:], descriptors[start:], strict=True):
                if len(part) == RANKS_A_MESSAGE:
                    break
                names = ("control", "output", "stack", "log", "listener")[: len(own)]
                places = {name: len(handed) + place for place, name in enumerate(names)}
                part.append({**configuration, "descriptors": places})
                handed.extend(own)
            try:
                send(self.socket, {"op": "fork", "ranks": part}, handed)
            except OSError:
                self._note(None)
            answer = self._answer("pids")
            pids += answer["pids"]
            for pid in answer["pids"]:
                self.exits.pop(pid, None)  # of an earlier process of the same number
                self.unwanted.discard(pid)
            if "why" in answer:
                self.kill(pids)
                raise ForkserverDied(answer["why"])
        return pids

    def preload(self, modules: Sequence[str]) -> None:
        """Have more modules imported; ranks forked before that import them by themselves."""
        missing = [name for name in modules if name not in self.imported]
        if missing:
            self.imported.update(missing)
            send(self.socket, {"op": "preload", "modules": missing})

    @property
    def knows_transforms(self) -> bool:
        """Whether ranks that are forked now find torch.func imported."""
        return self.imported.issuperset(TRANSFORMS)

    def kill(self, pids: Sequence[int]) -> None:
        """Kill processes and all they started."""
        for pid in pids:
            if self.exits.pop(pid, None) is None:
                self.unwanted.add(pid)  # nobody will ask how it ended
        with contextlib.suppress(OSError):  # whatever killed the pristine process has killed its ranks as well
            send(self.socket, {"op": "kill", "pids": list(pids)})

    def take_exits(self) -> None:
        """Read one message about a process that ended."""
        self._note(receive(self.socket)[0])

    def exit_of(self, pid: int, within: float = 5.0) -> int | None:
        """The exit status of a process that is ending: negative for a signal, None when it does not come."""
        limit = time.monotonic() + within
        while pid not in self.exits and (left := limit - time.monotonic()) > 0:
            self.socket.settimeout(left)
            try:
                self.take_exits()
            except TimeoutError:
                break
            finally:
                self.socket.settimeout(None)
        return self.exits.pop(pid, None)

    def close(self) -> None:
        """End the process; its ranks go with it."""
        self.socket.close()
        if self.process is not None:
            try:
                self.process.wait(5)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def _status(self) -> int | str:
        try:
            return self.process.wait(5) if self.process is not None else "unknown"
        except subprocess.TimeoutExpired:
            return "none yet: it only closed its connection"

    def _answer(self, key: str) -> dict[str, Any]:
        while True:
            message = receive(self.socket)[0]
            if message is not None and key in message:
                return message
            self._note(message)

    def _note(self, message: dict[str, Any] | None) -> None:
        if message is None:
            status = self._status()
            raise ForkserverDied(
                f"the process that ranks are forked from ended (exit status {status}); does `import torch` work?"
            )
        if message["exit"] in self.unwanted:
            self.unwanted.remove(message["exit"])
        else:
            self.exits[message["exit"]] = message["status"]
