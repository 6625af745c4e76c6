"""Runs items on ranks: keeps a world as long as it is good, replaces it after a fault, joins what its ranks say."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from conformance.outcome import RankOutcome, TestOutcome, worst
from conformance.plan import Item, Named
from conformance.pristine import Template
from conformance.ranks import World

#: How long new ranks may take to report; a machine under load is slow, not broken (seconds).
START_LIMIT = 60.0
#: How long the second look at a failure may take (seconds).
SECOND_LOOK = 3.0


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

    subject: Named | None
    size: int
    group: bool


class Pool:
    """One world at a time, the one that the last item needed."""

    def __init__(self, template: Template, settings: Settings) -> None:
        self.template = template
        self.settings = settings
        self.world: World | None = None
        self.key: Key | None = None
        self.unloadable: dict[tuple[Named | None, int], list[RankOutcome]] = {}

    def run(self, item: Item) -> TestOutcome:
        """Run one item on all its ranks."""
        start = time.perf_counter()
        if item.why_not:
            outcomes = [RankOutcome(0, "skip", item.why_not)]
        else:
            outcomes = self._outcomes(item)
            outcomes = self._second_look(item, outcomes)
        return joined(item, outcomes, time.perf_counter() - start)

    def preflight(self, subject: Named) -> tuple[str, str]:
        """Import a subject on one rank and take its samples: an outcome with its message, or ``pass`` with the spec."""
        world = self._new_world(Key(subject, 1, False))
        outcomes = self._load(world, subject, sample=True)
        spec = world.details()[0].get("spec", subject.spec)
        world.close()
        found = outcomes[0]
        if found.outcome in {"pass", "bad-subject"}:
            return found.outcome, spec if found.outcome == "pass" else found.message
        return found.outcome, found.message

    def close(self) -> None:
        """End the present world."""
        if self.world is not None:
            self.world.close()
        self.world, self.key = None, None

    def _outcomes(self, item: Item) -> list[RankOutcome]:
        key = Key(item.subject, item.size, item.group)
        known = self.unloadable.get((item.subject, item.size))
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
                self.unloadable[key.subject, key.size] = outcomes
                return outcomes
        self.world, self.key = world, key
        return None

    def _new_world(self, key: Key) -> World:
        settings = self.settings
        world = World(self.template, key.size, settings.backend, settings.device, key.group, settings.debug)
        outcomes = world.request(None, START_LIMIT)
        if any(outcome.outcome != "pass" for outcome in outcomes):
            lines = [f"rank {outcome.rank}: {outcome.message}\n{outcome.output}" for outcome in outcomes]
            world.close()
            raise StartFailed(f"{key.size} ranks did not start with {settings.backend}:\n" + "\n".join(lines))
        return world

    def _load(self, world: World, subject: Named | None, sample: bool = False) -> list[RankOutcome]:
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
        world.usable = True
        return [
            outcome
            if outcome.outcome in {"pass", "bad-subject"}
            else replace(outcome, message=f"while the subject was imported: {outcome.message}")
            for outcome in outcomes
        ]

    def _second_look(self, item: Item, outcomes: list[RankOutcome]) -> list[RankOutcome]:
        """Run a failure of several ranks once more with PyTorch's distributed debugging, for what it says alone."""
        broken = {outcome.outcome for outcome in outcomes} & {"error", "crash", "timeout"}
        loaded = (item.subject, item.size) not in self.unloadable
        if not (broken and loaded and item.group and item.size > 1) or self.settings.debug:
            return outcomes
        self.close()
        looking = Pool(self.template, replace(self.settings, debug=True, timeout=SECOND_LOOK))
        try:
            again = looking._outcomes(item)
        except StartFailed:
            return outcomes
        finally:
            looking.close()
        said = {outcome.rank: _mismatch(outcome.message) for outcome in again}
        return [_annotated(outcome, said.get(outcome.rank, "")) for outcome in outcomes]


class StartFailed(RuntimeError):
    """A world did not start: the machine or the backend is at fault, no subject is."""


def _usable(outcome: str) -> str:
    return "error" if outcome == "bad-subject" else outcome


def _mismatch(message: str) -> str:
    """The line in which PyTorch's debugging names collectives that do not match."""
    lines = message.splitlines()
    return next((line for line in lines if "mismatch" in line.lower() or "Detected" in line), "")


def _annotated(outcome: RankOutcome, said: str) -> RankOutcome:
    if not said:
        return outcome
    return replace(outcome, message=f"{outcome.message}\nwith TORCH_DISTRIBUTED_DEBUG=DETAIL: {said}")


def joined(item: Item, outcomes: Sequence[RankOutcome], seconds: float) -> TestOutcome:
    """What all ranks say together: any rank that fails, dies or disagrees fails the test."""
    outcome, message = _joined(outcomes)
    broken = outcome not in {"pass", "not-applicable", "skip"}
    return TestOutcome(
        nodeid=item.nodeid,
        clause=item.test.clause,
        subject=item.label,
        spec=item.spec,
        world=item.size,
        outcome=outcome,
        seconds=round(seconds, 6),
        message=message if broken else "",
        reason="" if broken else message,
        likely=next((found.likely for found in outcomes if found.likely), ""),
        reproduce=item.reproduce if broken else "",
        ranks=tuple(outcomes),
    )


def _joined(outcomes: Sequence[RankOutcome]) -> tuple[str, str]:
    kinds = {outcome.outcome for outcome in outcomes}
    if kinds == {"pass", "not-applicable"}:
        return "error", f"ranks disagree on whether the clause applies: {_by_rank(outcomes)}"
    causes = [outcome for outcome in outcomes if not outcome.left_alone] or list(outcomes)
    outcome = worst([cause.outcome for cause in causes])
    first = next(cause for cause in causes if cause.outcome == outcome)
    if outcome in {"pass", "not-applicable", "skip"}:
        return outcome, first.message
    lines = [first.message]
    if len(outcomes) > 1:
        lines = [f"rank {first.rank} of {len(outcomes)}: {first.message}"]
        lines += disagreement(outcomes)
    return outcome, "\n".join(lines)


def _by_rank(outcomes: Sequence[RankOutcome]) -> str:
    return ", ".join(f"rank {outcome.rank} {outcome.outcome}" for outcome in outcomes)


def disagreement(outcomes: Sequence[RankOutcome]) -> list[str]:
    """Name the first collective in which the ranks' calls differ; nothing where they agree."""
    calls: Mapping[int, tuple[str, ...]] = {outcome.rank: outcome.collectives for outcome in outcomes}
    longest = max((len(called) for called in calls.values()), default=0)
    for place in range(longest):
        here = {rank: called[place] if place < len(called) else "nothing more" for rank, called in calls.items()}
        if len(set(here.values())) > 1:
            each = "; ".join(f"rank {rank} called {text}" for rank, text in here.items())
            return [f"the ranks' collectives differ at number {place + 1}: {each}"]
    return []
