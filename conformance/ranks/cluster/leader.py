"""Lead a run that a launcher such as torchrun has started as several processes.

Every launched process keeps one rank, forked from a forkserver of its own. The first process runs the tests, on
groups of all launched processes' ranks; they communicate through the launcher's own store.
"""

from __future__ import annotations

import itertools
import secrets
import signal
import time
from typing import Any

from conformance.core.errors import UsageError
from conformance.core.output import complain
from conformance.core.plan import DEFAULT_RANKS
from conformance.ranks.client import Forkserver
from conformance.ranks.cluster import net
from conformance.ranks.cluster.group import ClusterGroup, LaunchedProcess
from conformance.ranks.cluster.store import GATHER_LIMIT, Forged, Launch, Post, connect, keep_beating
from conformance.ranks.devices import identity_of_device
from conformance.ranks.group import RankGroup

#: How long the first process waits for the others to read the end of the run (seconds).
FAREWELL = 5.0
#: What must be equal in all launched processes: differences would cause obscure failures.
SAME = ("torch", "cuda", "suite")


class Cluster:
    """The first launched process: it knows all others, makes worlds of their ranks, and ends the run."""

    def __init__(self, launch: Launch) -> None:
        self.launch = launch
        self.epoch = itertools.count(1)
        self.store = connect(launch)
        self.facts: list[dict[str, Any]] = []
        self.launched: LaunchedProcess | None = None

    def gather(self, forkserver: Forkserver) -> None:
        """Wait until every launched process has registered, and confirm it to all of them.

        Raises:
            UsageError: some are missing, or differ in what must be equal.
        """
        forkserver.wait()
        token = secrets.token_hex(8)
        post = Post(self.store, self.launch.key, f"{token}/")
        Post(self.store, self.launch.key).put("leader", token)
        own = facts(self.launch, forkserver)
        end = time.monotonic() + GATHER_LIMIT
        while (there := post.count("there")) < self.launch.size - 1:
            if time.monotonic() > end:
                raise UsageError(f"only {there + 1} of {self.launch.size} launched processes came in time")
            time.sleep(0.05)
        try:
            self.facts = [own, *post.read_all([f"hello/{rank}" for rank in range(1, self.launch.size)])]
        except Forged as error:
            raise UsageError(str(error)) from None
        machines = tuple(fact["machine"] for fact in self.facts)
        elsewhere = next((fact["address"] for fact in self.facts if fact["machine"] != machines[0]), "")
        address = net.address_towards(elsewhere, 9) if elsewhere else net.LOOPBACK
        interface = net.interface_of(address)
        self.launched = LaunchedProcess(0, self.launch.local_rank, self.launch.size, post, address, interface, machines)
        post.put("welcome", [fact["nonce"] for fact in self.facts])
        keep_beating(self.launch, post.prefix)
        self._check_same_versions()
        net.end_when_silent(self.launch.host, self.launch.port, self.launch.size)

    def _check_same_versions(self) -> None:
        for rank, fact in enumerate(self.facts):
            for name in SAME:
                if fact[name] != self.facts[0][name]:
                    raise UsageError(
                        f"rank {rank} on {fact['machine'].split()[0]} has {name} {fact[name]!r}, rank 0 has "
                        f"{self.facts[0][name]!r}; install the same on all machines"
                    )

    def rank_group(
        self, forkserver: Forkserver, size: int, backend: str, device: str, group: bool, debug: bool = False
    ) -> RankGroup | ClusterGroup:
        """Make a world: one rank here, or the first ranks of all launched processes."""
        if size == 1:
            return RankGroup(forkserver, size, backend, device, group, debug)
        assert self.launched is not None, "gather first"
        opening = {"size": size, "backend": backend, "device": device, "group": group, "debug": debug}
        return ClusterGroup(forkserver, self.launched, next(self.epoch), opening)

    def places(self, device: str) -> list[str]:
        """Return the device of each rank, by a name that is unique among all machines."""
        found = []
        for fact in self.facts:
            place = identity_of_device(
                device, fact["local_rank"], fact["accelerators"].get(device.partition(":")[0], ())
            )
            found.append(place and f"{fact['machine']} {place}")
        return found

    @property
    def described(self) -> dict[str, Any]:
        """Describe where the ranks are, for the report."""
        return {"launched": self.launch.size, "machines": len({fact["machine"] for fact in self.facts})}

    def end(self, status: int) -> None:
        """Have the others end with the same status. Called last: the launcher may kill this process after that."""
        if self.launched is None:
            return
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        post = self.launched.post
        try:
            post.put(f"world/{next(self.epoch)}", {"end": status})
            limit = time.monotonic() + FAREWELL
            while post.count("gone") < self.launch.size - 1 and time.monotonic() < limit:
                time.sleep(0.01)
        except RuntimeError as error:
            complain(f"the launcher's store is gone: {str(error).splitlines()[0]}")


def world_sizes(asked: tuple[int, ...], launched: int) -> tuple[int, ...]:
    """Choose the worlds of a run: those requested, or the default ones that fit and the whole world.

    >>> world_sizes((1, 2, 3, 4), 8), world_sizes((1, 2, 3, 4), 2), world_sizes((2, 16), 8)
    ((1, 2, 3, 4, 8), (1, 2), (2, 16))
    """
    if asked != DEFAULT_RANKS:
        return asked
    return tuple(sorted({size for size in asked if size <= launched} | {launched}))


def facts(launch: Launch, forkserver: Forkserver) -> dict[str, Any]:
    """Collect what the first launched process must know of each."""
    from conformance.core import clauses

    return {
        "nonce": secrets.token_hex(8),
        "machine": net.machine(),
        "address": net.address_towards(launch.host, launch.port),
        "local_rank": launch.local_rank,
        "accelerators": forkserver.hardware.accelerators,
        "torch": forkserver.environment["torch"],
        "cuda": forkserver.environment["cuda"],
        "suite": clauses.digest(),
    }
