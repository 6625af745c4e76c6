"""Machines for tests of the cluster mode: torchrun on this one, and nodes made of network namespaces."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests import warm
from tests.cable import Hub

ROOT = Path(__file__).parents[1]
TORCHRUN = (sys.executable, "-m", "torch.distributed.run")
SUITE = ("-m", "conformance", "run")
LIMIT = 600.0


def environment() -> dict[str, str]:
    """What launched processes see: this checkout, with gathers that do harm in every call; one thread each."""
    path = os.pathsep.join([str(ROOT), str(ROOT / "tests" / "faults"), os.environ.get("PYTHONPATH", "")])
    own = {"PYTHONPATH": path, "HOSTILE_MARK": "0", "OMP_NUM_THREADS": "1", "CONFORMANCE_KEY": "for these tests alone"}
    return {**os.environ, **own}


def finish(process: subprocess.Popen[str], limit: float = LIMIT) -> tuple[int, str]:
    """Wait for a process; its status and what it printed. One that hangs is ended with all it started."""
    try:
        output, _ = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGTERM)
        output, _ = process.communicate(timeout=LIMIT)
        raise AssertionError(f"still running after {limit:g} s:\n{output}") from None
    return process.returncode, output


def start(command: Sequence[str], folder: Path) -> subprocess.Popen[str]:
    """Start a command in a folder of its own, its output kept."""
    return subprocess.Popen(
        list(command), cwd=folder, env=environment(), text=True, start_new_session=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip


def alone(folder: Path, *words: str) -> tuple[int, str]:
    """An ordinary run on this machine."""
    return _warm(folder, *SUITE, *words)


def launched(folder: Path, size: int, *words: str) -> tuple[int, str]:
    """The same under torchrun, with so many processes."""
    return _warm(folder, *TORCHRUN[1:], "--standalone", f"--nproc-per-node={size}", *SUITE, *words)


def _warm(folder: Path, *words: str) -> tuple[int, str]:
    """A command where torch is imported already: its status and what it printed. What torchrun starts is cold."""
    done = warm.run(*words, cwd=folder, env=environment(), within=LIMIT)
    return done.returncode, done.stdout + done.stderr


def verdicts(report: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The verdict of each clause, and for each test its outcome and those of its ranks."""
    subjects = json.loads((report / "report.json").read_text(encoding="utf-8"))["subjects"]
    clauses = {f"{subject['subject']} {clause['id']}": clause for subject in subjects for clause in subject["clauses"]}
    tests = [test for clause in clauses.values() for test in clause["tests"]]
    return (
        {name: clause["verdict"] for name, clause in clauses.items()},
        {test["nodeid"]: (test["outcome"], [rank["outcome"] for rank in test["ranks"]]) for test in tests},
    )


@dataclass
class Nodes:
    """Nodes that are joined by a cable or a hub; each is a network namespace with a host name of its own."""

    folder: Path
    names: tuple[str, ...]
    processes: int
    started: list[subprocess.Popen[str]] = field(default_factory=list)

    def launch(self, node: int, port: int, *words: str, options: Sequence[str] = ()) -> subprocess.Popen[str]:
        """Start torchrun on one node."""
        address = f"10.77.0.{node + 1}"
        torchrun = [
            *TORCHRUN, f"--nnodes={len(self.names)}", f"--nproc-per-node={self.processes}", "--rdzv-id=test",
            "--rdzv-backend=c10d", f"--rdzv-endpoint=10.77.0.1:{port}",
            "--rdzv-conf=timeout=60,keep_alive_interval=2", f"--local-addr={address}", *options,
            *SUITE, *words,
        ]  # fmt: skip
        name = self.names[node]
        hosts = self.folder / "hosts"
        named = (f"10.77.0.{place + 1} {other}" for place, other in enumerate(self.names))
        hosts.write_text("\n".join(["127.0.0.1 localhost", *named, ""]))
        as_host = ["unshare", "--uts", "--mount", "sh", "-ec"]
        as_host += [f'hostname {name}; mount --bind {hosts} /etc/hosts; exec "$@"', "sh"]
        # Otherwise torch 2.13 keeps a node that comes later from finding the first one's store.
        as_host = ["env", "TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1", *as_host]
        process = start(["ip", "netns", "exec", name, *as_host, *torchrun], self.folder)
        self.started.append(process)
        return process

    def cut(self, node: int) -> None:
        """Pull the cable out of a node."""
        _ip("-n", self.names[node], "link", "set", f"cable{node}", "down")

    def kill(self, node: int) -> None:
        """End every process of a node at once, as when its power fails."""
        for pid in self._pids(node):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def running(self, node: int, word: str) -> bool:
        """Whether a process of a node has a word in its command line."""
        return any(word in _command(pid) for pid in self._pids(node))

    def _pids(self, node: int) -> list[int]:
        listing = subprocess.run(["ip", "netns", "pids", self.names[node]], capture_output=True, text=True, check=False)
        return [int(pid) for pid in listing.stdout.split()]


@contextlib.contextmanager
def two_nodes(folder: Path, processes: int) -> Iterator[Nodes]:
    """Two nodes with a cable between them: a pair of virtual Ethernet devices.

    Raises:
        PermissionError: this process may not make any, or there is no ``ip``.
    """
    with _namespaces(folder, 2, processes) as nodes:
        first, second = nodes.names
        _ip("link", "add", "cable0", "netns", first, "type", "veth", "peer", "name", "cable1", "netns", second)
        _set_up(nodes)
        yield nodes


@contextlib.contextmanager
def hub(folder: Path, count: int, processes: int, delay: float) -> Iterator[Nodes]:
    """Nodes on a hub, where every frame takes a while (seconds).

    Raises:
        PermissionError: this process may not make any, or there is no ``ip``.
    """
    with _namespaces(folder, count, processes) as nodes:
        devices = [f"cable{place}" for place in range(count)]
        with Hub(devices, delay):
            for device, name in zip(devices, nodes.names, strict=True):
                _ip("link", "set", device, "netns", name)
            _set_up(nodes)
            try:
                yield nodes
            finally:
                _end(nodes)


def _set_up(nodes: Nodes) -> None:
    for place, name in enumerate(nodes.names):
        _ip("-n", name, "address", "add", f"10.77.0.{place + 1}/24", "dev", f"cable{place}")
        _ip("-n", name, "link", "set", f"cable{place}", "up")
        _ip("-n", name, "link", "set", "lo", "up")


@contextlib.contextmanager
def _namespaces(folder: Path, count: int, processes: int) -> Iterator[Nodes]:
    nodes = Nodes(folder, tuple(f"cnf{letter}{os.getpid()}" for letter in "ABCDEFGH"[:count]), processes)
    if not (shutil.which("ip") and shutil.which("unshare")):
        raise PermissionError("needs the commands ip (package iproute2) and unshare")
    try:
        for name in nodes.names:
            _ip("netns", "add", name)
        yield nodes
    finally:
        _end(nodes)
        for name in nodes.names:
            subprocess.run(["ip", "netns", "delete", name], capture_output=True, check=False)


def _end(nodes: Nodes) -> None:
    for place in range(len(nodes.names)):
        nodes.kill(place)
    for process in nodes.started:
        if process.stdout and not process.stdout.closed:
            process.communicate()


def _command(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text(encoding="utf-8", errors="replace").replace("\0", " ")
    return ""


def _ip(*words: str) -> None:
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise PermissionError(f"needs the right to make network namespaces: {done.stderr.strip()}")


def wait_for(condition: Any) -> None:
    """Wait until a condition holds."""
    end = time.monotonic() + LIMIT
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.05)
