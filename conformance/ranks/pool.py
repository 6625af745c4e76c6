"""Runs items on ranks: keeps a world as long as it is good, replaces it after a fault, joins what its ranks say."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, cast

from conformance.core.errors import ForkserverDied, StartFailed
from conformance.core.joining import at_odds, joined
from conformance.core.outcomes import Outcome, RankOutcome, TestOutcome
from conformance.core.plan import PlannedTest, SubjectRef
from conformance.ranks.client import Forkserver
from conformance.ranks.giving_up import Patience
from conformance.ranks.group import World
from conformance.ranks.preloads import TRANSFORMS

#: How long new ranks may take to report; a machine under load is slow, not broken (seconds).
START_LIMIT = 60.0
#: How long the second look at a failure may take (seconds).
SECOND_LOOK = 3.0
#: How often in a run the pristine process may be killed before that is no accident.
RESTARTS = 20


@dataclass(frozen=True)
class Settings:
    """What all worlds of a run have in common."""

    backend: str = "gloo"
    device: str = "cpu"
    timeout: float = 30.0
    path: tuple[str, ...] = ()
    setup: tuple[str, ...] = ()
    debug: bool = False


@dataclass(frozen=True)
class Key:
    """What a world is good for."""

    subject: SubjectRef | None
    size: int
    group: bool


class Pool:
    """One world at a time, the one that the last item needed."""

    def __init__(self, template: Forkserver, settings: Settings, worlds: Callable[..., Any] = World) -> None:
        self.template = template
        self.settings = settings
        self.worlds = worlds  # what makes one: ranks of this machine, or of several
        self.world: World | None = None
        self.key: Key | None = None
        self.unloadable: dict[tuple[str, int], list[RankOutcome]] = {}
        self.patience = Patience()
        self.files: set[str] = set()  # what the subjects so far are made of
        self.modules: tuple[str, ...] = ()  # what the tests to come import
        self.transforms: tuple[str, ...] = ()  # and what torch.func does, where some of them need it

    def look_ahead(self, items: Iterable[PlannedTest]) -> None:
        """Take note of what is to be run, so that modules are imported once and not on every rank."""
        tests = [item.test for item in items]
        self.modules = tuple(sorted({test.module for test in tests}))
        self.transforms = TRANSFORMS if any(test.transforms for test in tests) else ()

    def run(self, item: PlannedTest) -> TestOutcome:
        """Run one item on all its ranks."""
        start = time.perf_counter()
        why_not = item.why_not or self.patience.why_not(item)
        if why_not:
            return joined(item, [RankOutcome(0, "skip", why_not)], time.perf_counter() - start)
        try:
            outcomes = self._second_look(item, self._outcomes(item))
        except ForkserverDied as error:
            outcomes = self._begin_again(item, error)
        outcome = joined(item, outcomes, time.perf_counter() - start)
        self.patience.note(item, outcome)
        return outcome

    def preflight(self, subject: SubjectRef) -> tuple[str, str]:
        """Import a subject on one rank and take its samples: an outcome with its message, or ``pass`` with the spec."""
        world = self._new_world(Key(subject, 1, False))
        (found,) = self._load(world, subject, sample=True)
        spec = world.details()[0].get("spec", subject.spec)
        world.close()
        if found.outcome == "timeout":
            self.unloadable[_name(subject), 0] = [found]
        if found.outcome in {"pass", "bad-subject"}:
            return found.outcome, spec if found.outcome == "pass" else found.message
        return found.outcome, found.message

    def close(self) -> None:
        """End the present world."""
        if self.world is not None:
            self.world.close()
        self.world, self.key = None, None

    def forget(self) -> None:
        """Know nothing of the subjects any more: their files have changed."""
        self.close()
        self.unloadable.clear()
        self.patience = Patience()

    def _begin_again(self, item: PlannedTest, error: ForkserverDied) -> list[RankOutcome]:
        """Go on after the pristine process itself was killed, as long as that is no habit."""
        if not self.template.environment or self.template.restarts >= RESTARTS:
            raise error
        self.close()
        self.patience.killed(item)
        self.template.restart()
        message = "the process that ranks are forked from was killed, and this rank with it"
        return [RankOutcome(rank, "crash", message) for rank in range(item.size)]

    def _known(self, item: PlannedTest) -> list[RankOutcome] | None:
        """The outcomes of an item whose subject is known not to load: nobody waits for that twice."""
        hangs = self.unloadable.get((_name(item.subject), 0))
        if hangs is not None:
            return [replace(hangs[0], rank=rank) for rank in range(item.size)]
        return self.unloadable.get((_name(item.subject), item.size))

    def _outcomes(self, item: PlannedTest) -> list[RankOutcome]:
        key = Key(item.subject, item.size, item.group)
        known = self._known(item)
        if item.test.transforms and not (self.world and self.world.knows_transforms):
            self.template.preload(TRANSFORMS)
            self.key = None
        if known is None and (self.world is None or self.key != key or not self.world.usable):
            known = self._replace(key)
        if known is not None:
            return known
        assert self.world is not None
        request = {
            "op": "test",
            "module": item.test.module,
            "function": item.test.function,
            "arguments": item.test.arguments,
            "cases": dict(item.case),
        }
        return self.world.request(request, min(item.test.deadline or self.settings.timeout, self.settings.timeout))

    def _replace(self, key: Key) -> list[RankOutcome] | None:
        """Have a fresh world for ``key``; return the ranks' outcomes if the subject cannot be loaded there."""
        self.close()
        world = self._new_world(key)
        if key.subject is not None or self.settings.setup:
            outcomes = self._load(world, key.subject)
            if any(outcome.outcome != "pass" for outcome in outcomes):
                world.close()
                outcomes = [replace(outcome, outcome=_usable(outcome.outcome)) for outcome in outcomes]
                self.unloadable[_name(key.subject), key.size] = outcomes
                return outcomes
        self.world, self.key = world, key
        return None

    def _new_world(self, key: Key) -> World:
        settings = self.settings
        where = settings.backend, settings.device
        world: World = self.worlds(self.template, key.size, *where, key.group, settings.debug)
        outcomes = world.request(None, START_LIMIT)
        if any(outcome.outcome != "pass" for outcome in outcomes):
            lines = [f"rank {outcome.rank}: {outcome.message}\n{outcome.output}" for outcome in outcomes]
            world.close()
            raise StartFailed(f"{key.size} ranks did not start with {settings.backend}:\n" + "\n".join(lines))
        for modules in (self.modules, self.transforms):
            self.template.preload(modules)  # while these ranks are busy
        return world

    def _load(self, world: World, subject: SubjectRef | None, sample: bool = False) -> list[RankOutcome]:
        request = {
            "op": "load",
            "path": self.settings.path,
            "setup": self.settings.setup,
            "subject": subject.reference or None if subject else None,
            "spec": subject.spec or None if subject else None,
            "inputs": subject.inputs if subject else None,
            "payload": subject.payload if subject else "",
            "sample": sample,
        }
        outcomes = world.request(request, self.settings.timeout)
        self.files.update(str(file) for details in world.details() for file in details.get("files", ()))
        world.usable = True
        return [
            outcome
            if outcome.outcome in {"pass", "bad-subject"}
            else replace(outcome, message=f"while the subject was imported: {outcome.message}")
            for outcome in outcomes
        ]

    def _second_look(self, item: PlannedTest, outcomes: list[RankOutcome]) -> list[RankOutcome]:
        """Run collectives that did not match once more with PyTorch's distributed debugging, for its words alone."""
        broken = {outcome.outcome for outcome in outcomes} & {"error", "crash", "timeout"}
        if not (broken and item.group and at_odds(outcomes)) or self.settings.debug or self._known(item):
            return outcomes
        self.close()
        looking = Pool(self.template, replace(self.settings, debug=True, timeout=SECOND_LOOK), self.worlds)
        try:
            again = looking._outcomes(item)
        except (StartFailed, ForkserverDied):
            return outcomes
        finally:
            looking.close()
        said = {outcome.rank: _mismatch(outcome.message) for outcome in again}
        return [_annotated(outcome, said.get(outcome.rank, "")) for outcome in outcomes]


def _name(subject: SubjectRef | None) -> str:
    return f"{subject.reference or subject.label} {subject.inputs or ''}" if subject else ""


def _usable(outcome: str) -> Outcome:
    return "error" if outcome == "bad-subject" else cast(Outcome, outcome)


def _mismatch(message: str) -> str:
    """The line in which PyTorch's debugging names collectives that do not match."""
    lines = message.splitlines()
    return next((line for line in lines if "mismatch" in line.lower() or "Detected" in line), "")


def _annotated(outcome: RankOutcome, said: str) -> RankOutcome:
    if not said:
        return outcome
    return replace(outcome, message=f"{outcome.message}\nwith TORCH_DISTRIBUTED_DEBUG=DETAIL: {said}")
