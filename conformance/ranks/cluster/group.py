"""Manage ranks under several launched processes: each forks one rank and carries out orders of the first process.

An order in the store names a test or a subject and nothing more. Each launched process takes the import path and the
setups from its own command line; no order contains a pickle.
"""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass, replace
from typing import Any

from conformance.core.errors import ForkserverDied
from conformance.core.outcomes import BROKEN, RankOutcome
from conformance.ranks.client import Forkserver
from conformance.ranks.cluster.net import LOOPBACK
from conformance.ranks.cluster.store import Backoff, Forged, Post
from conformance.ranks.group import STOPPED, RankGroup, in_step
from conformance.ranks.owner import Owner
from conformance.ranks.place import Place, listening
from conformance.ranks.preloads import TRANSFORMS

#: How long the first process waits for an outcome after its own rank's, before a process counts as lost (seconds).
LOST = 20.0
#: Fields that each launched process adds to an order to load a subject, from its own command line.
OWN = ("path", "setup", "payload")


class Lost(KeyboardInterrupt):
    """A launched process has ended: no test can be judged, so the run ends as if it had been interrupted."""


@dataclass(frozen=True)
class LaunchedProcess:
    """One launched process among all of them."""

    rank: int
    local_rank: int
    size: int
    post: Post
    address: str = LOOPBACK
    interface: str = "lo"
    machines: tuple[str, ...] = ()


class LocalRank(RankGroup):
    """The one rank of a group that is forked here; failures and values of others come from the store."""

    def __init__(self, forkserver: Forkserver, opening: dict[str, Any], place: Place, post: Post) -> None:
        self.post = post
        self.epoch = opening["epoch"]
        self.number = 0
        self.traded = 0
        self.offering = False
        self.backoff = Backoff()
        names = ("size", "backend", "device", "group", "debug")
        super().__init__(forkserver, **{name: opening[name] for name in names}, place=place)

    def request(self, message: dict[str, Any] | None, deadline: float) -> list[RankOutcome]:
        """Send the next request to the rank here, and store its outcome."""
        self.number += 1
        self.traded, self.offering = 0, False
        self.backoff = Backoff()
        return super().request(message, deadline)

    @property
    def key(self) -> str:
        """Return the key of the present request in the store."""
        return f"{self.epoch}/{self.number}"

    @property
    def pause(self) -> float:
        """Return when to check the store again (seconds)."""
        return self.backoff.pause

    def _elsewhere(self) -> str:
        if self.size > 1 and self.backoff.due() and self.post.has(f"stop/{self.key}"):
            return str(self.post.read(f"stop/{self.key}"))
        return ""

    def _exchange(self) -> None:
        (rank,) = self.ranks
        if not rank.offered or rank.finished:
            return
        key = f"{self.key}/{self.traded}"
        if not self.offering:
            self.post.put(f"value/{rank.rank}", [key, rank.offered[0]])
            self.post.count(f"offers/{key}", 1)
            self.offering = True
            self.backoff = Backoff()
        if rank.rank == 0 and self.post.count(f"offers/{key}") == self.size:
            values = read_present(self.post, key, [f"value/{number}" for number in range(self.size)])
            self.post.put(f"values/{key}", values)
        elif rank.rank == 0 or not self.post.has(f"values/{key}"):
            return
        rank.put({"values": self.post.read(f"values/{key}")})
        rank.offered.pop(0)
        self.traded += 1
        self.offering = False


def post_outcome(post: Post, key: str, rank: int, outcome: RankOutcome) -> None:
    """Send a rank's outcome to the first launched process, and to the others if they wait in vain."""
    if outcome.outcome in BROKEN:
        post.put(f"stop/{key}", outcome.outcome)
    post.put(f"outcome/{rank}", [key, outcome.to_json()])
    post.count(f"done/{key}", 1)


def read_present(post: Post, key: str, names: list[str]) -> list[Any]:
    """Read the outcomes of all ranks for the present request.

    Raises:
        Forged: one belongs to another request: somebody has replayed an old message.
    """
    found = post.read_all(names)
    if any(of != key for of, _ in found):
        raise Forged("the launcher's store holds an answer to an earlier request: somebody else writes there")
    return [value for _, value in found]


def order_for(message: dict[str, Any]) -> dict[str, Any]:
    """Return the part of a request that is sent through the store.

    >>> order_for({"op": "load", "subject": "a:b", "payload": "", "path": ["/x"], "setup": []})
    {'op': 'load', 'subject': 'a:b'}
    """
    return {name: value for name, value in message.items() if name not in OWN}


class ClusterGroup(Owner):
    """Lead ranks of all launched processes, with the interface of a rank group on this machine."""

    def __init__(self, forkserver: Forkserver, launched: LaunchedProcess, epoch: int, opening: dict[str, Any]) -> None:
        self.launched, self.post, self.epoch = launched, launched.post, epoch
        self.size: int = opening["size"]
        self.usable = True
        self.refuses, self.answered = False, True  # as far as is known: other ranks do not send that
        self.knows_transforms = forkserver.knows_transforms
        self.number = 0
        host = launched.address if len(set(launched.machines[: self.size])) > 1 else LOOPBACK
        interface = launched.interface if host != LOOPBACK else "lo"
        listener = listening(host, self.size)
        port = listener.getsockname()[1]
        place = Place(0, launched.local_rank, host, port, interface, listener)
        opening |= {"epoch": epoch, "host": host, "port": port, "transforms": forkserver.knows_transforms}
        self.post.put(f"world/{epoch}", opening)
        try:
            self.local = LocalRank(forkserver, opening, place, self.post)
        except BaseException:
            self.post.put(f"order/{epoch}/1", None)
            raise

    def request(self, message: dict[str, Any] | None, deadline: float) -> list[RankOutcome]:
        """Send the same request to every rank, and wait for all of them, or until the deadline (seconds from now).

        Raises:
            Lost: a launched process has not sent its rank's outcome in time.
        """
        self.number += 1
        key = f"{self.epoch}/{self.number}"
        end = time.monotonic() + deadline + LOST
        self.post.put(f"order/{key}", {"message": message and order_for(message), "deadline": deadline})
        try:
            (own,) = self.local.request(message, deadline)
        except BaseException:
            self.post.put(f"stop/{key}", "crash")
            raise
        if own.outcome in BROKEN:
            self.post.put(f"stop/{key}", own.outcome)
        outcomes = blamed([own, *self._of_others(key, end)])
        self.post.drop(f"order/{key}", f"done/{key}", f"stop/{key}")
        late = any(outcome.outcome == "timeout" for outcome in outcomes)
        changed = any(outcome.changed for outcome in outcomes)
        self.usable = not (late or changed) and in_step(outcomes)
        return outcomes

    def _of_others(self, key: str, end: float) -> list[RankOutcome]:
        backoff = Backoff()
        while self.post.count(f"done/{key}") < self.size - 1:
            if time.monotonic() > end:
                raise Lost(f"no word from another rank's machine, {LOST:g} s past the test's deadline")
            time.sleep(backoff.pause)
        said = read_present(self.post, key, [f"outcome/{rank}" for rank in range(1, self.size)])
        return [RankOutcome.from_json(data) for data in said]

    @property
    def is_sound(self) -> bool:
        """Tell whether the rank here is sound; each launched process checks its own."""
        return self.local.is_sound

    def details(self) -> list[dict[str, Any]]:
        """Return the whole reply of the rank here; other processes send only outcomes."""
        return self.local.details() + [{}] * (self.size - 1)

    def close(self) -> None:
        """End every rank."""
        with contextlib.suppress(RuntimeError):  # the store may have ended
            self.post.put(f"stop/{self.epoch}/{self.number}", "crash")
            self.post.put(f"order/{self.epoch}/{self.number + 1}", None)
        self.local.close()


def blamed(outcomes: list[RankOutcome]) -> list[RankOutcome]:
    """Mark late ranks that only wait: they entered more collectives than another late rank."""
    late = [outcome for outcome in outcomes if outcome.outcome == "timeout" and not outcome.bystander]
    behind = min((len(outcome.collectives) for outcome in late), default=0)
    if any(len(outcome.collectives) < behind for outcome in outcomes):
        return outcomes
    return [
        replace(outcome, bystander=True)
        if outcome in late and len(outcome.collectives) > behind and STOPPED not in outcome.message
        else outcome
        for outcome in outcomes
    ]


def answer(forkserver: Forkserver, launched: LaunchedProcess, opening: dict[str, Any], own: dict[str, Any]) -> None:
    """Serve a group in a following process: fork its rank and pass on each request, until the group ends."""
    if opening["transforms"]:
        forkserver.preload(TRANSFORMS)
    one_machine = opening["host"] == LOOPBACK
    interface = "lo" if one_machine else launched.interface
    place = Place(launched.rank, launched.local_rank, opening["host"], opening["port"], interface, None)
    local: LocalRank | None = None
    number = 1
    while (order := launched.post.await_order(f"order/{opening['epoch']}/{number}")) is not None:
        try:
            local = local or LocalRank(forkserver, opening, place, launched.post)
            message = order["message"]
            if message and message["op"] == "load":
                message = {**order_for(message), **own}
            (outcome,) = local.request(message, order["deadline"])
        except ForkserverDied as error:
            outcome = RankOutcome(launched.rank, "crash", f"the forkserver was killed: {error}")
            if forkserver.ready:
                forkserver.restart()
            local = None
        if found := forkserver.put_back():
            outcome = replace(outcome, changed=(*outcome.changed, *found))
        if local is not None and forkserver.process.poll() is not None:  # it could not be repaired
            local.close()
            local = None
            forkserver.restart()
        post_outcome(launched.post, f"{opening['epoch']}/{number}", launched.rank, outcome)
        number += 1
    if local is not None:
        local.close()
