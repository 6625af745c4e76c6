"""Run tests on ranks: keep a rank group while it is usable, replace it after a fault, join its ranks' outcomes."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from conformance.core.disagreement import at_odds
from conformance.core.errors import ForkserverDied, RunnerError, StartFailed
from conformance.core.joining import DISAGREE, joined
from conformance.core.outcomes import (
    DIED_LATER,
    DIED_ONCE,
    EARLIER_CALLS,
    LEFT_BEHIND,
    NOT_WAITED_FOR,
    Outcome,
    RankOutcome,
    TestOutcome,
    worst,
)
from conformance.core.plan import PlannedTest, SubjectRef
from conformance.core.worlds import is_simulated
from conformance.ranks.client import Forkserver
from conformance.ranks.clock import monotonic
from conformance.ranks.giving_up import GiveUpRule
from conformance.ranks.group import RankGroup
from conformance.ranks.hangs import Hangs
from conformance.ranks.owner import Owner
from conformance.ranks.preloads import TRANSFORMS
from conformance.ranks.refusals import Refusals
from conformance.ranks.second_look import STILL_COMPILING, annotated, due_to, still_compiling
from conformance.ranks.settings import Settings
from conformance.ranks.starter import Key, Starter, described

#: How long the second look at a failure may take (seconds).
SECOND_LOOK = 3.0


class Pool(Owner):
    """Hold one rank group at a time, that of the last test. Close it, or use it as a context manager."""

    def __init__(self, forkserver: Forkserver, settings: Settings, make_group: Callable[..., Any] = RankGroup) -> None:
        self.forkserver = forkserver
        self.settings = settings
        self.starter = Starter(forkserver, make_group)
        self.group: RankGroup | None = None
        self.key: Key | None = None
        self.starting = False
        self.ran: list[PlannedTest] = []  # on the present ranks
        self.fail_alone: set[tuple[str, str]] = set()  # (subject, clause) that fresh ranks break too
        self.fail_at_once: set[tuple[str, str]] = set()  # and those that break if every collective ends at once
        self.refusals = Refusals()
        self.unloadable: dict[tuple[str, int], list[RankOutcome]] = {}
        self.give_up = GiveUpRule()
        self.hangs = Hangs()

    @property
    def files(self) -> set[str]:
        """Return the source files of the subjects so far."""
        return self.starter.files

    def look_ahead(self, items: Iterable[PlannedTest]) -> None:
        """Note the planned tests, so that modules are imported once and not on every rank."""
        self.starter.look_ahead(items)

    def run(self, item: PlannedTest) -> TestOutcome:
        """Run one test on all its ranks.

        Raises:
            StartFailed: no ranks have ever started here; nothing can be judged.
            ForkserverDied: the forkserver cannot be started.
        """
        start = monotonic()
        if item.left_out:
            return joined(item, _all_ranks(item, "not-applicable", item.left_out), 0.0)
        why_not = item.why_not or self.give_up.why_not(item)
        if why_not:
            return joined(item, [RankOutcome(0, "skip", why_not)], monotonic() - start)
        self.forkserver.strays.note()
        outcomes = self.put_back(self._attempted(item, lambda: self._second_look(item, self._outcomes(item))))
        if still_compiling(item, outcomes):
            outcomes = _all_ranks(item, "skip", STILL_COMPILING)
        outcome = joined(item, outcomes, monotonic() - start)
        self.give_up.note(item, outcome)
        if self._passes_where_nothing_is_left_behind(item, outcome):
            return due_to(LEFT_BEHIND, outcome)
        earlier = self.ran[:-1]
        alone = self._outcome_alone(item, outcome)
        why_open = ""
        if outcome.outcome == "crash" and alone == "not-applicable":
            why_open = DIED_LATER
        elif outcome.outcome == "crash" and alone == "pass" and not self._dies_again([*earlier, item]):
            why_open = DIED_ONCE
        if why_open:
            words = next(rank.message.partition("\n")[0] for rank in outcome.ranks if rank.signal)
            return joined(item, _all_ranks(item, "skip", why_open.format(words)), monotonic() - start)
        if alone == "pass":
            return replace(due_to(EARLIER_CALLS, outcome), reproduce=item.reproduce_among_others)
        return outcome

    def _passes_where_nothing_is_left_behind(self, item: PlannedTest, outcome: TestOutcome) -> bool:
        """Tell whether a failed test passes if every collective ends at once, and no call waited for one of them.

        Tried for a clause until a test fails there too.
        """
        broken = (_name(item.subject), item.test.clause)
        is_told = outcome.outcome == "fail" or outcome.message.startswith(DISAGREE)
        if not is_told or not item.group or outcome.likely in NOT_WAITED_FOR:
            return False
        if broken in self.fail_at_once or item.test.compiles or self.refusals.known or self._known(item):
            return False
        again = self.put_back(self._attempted(item, lambda: self._outcomes(item, ended_at_once=True)))
        passes = all(rank.outcome == "pass" for rank in again)
        self.fail_at_once.update(() if passes else (broken,))
        return passes and self.group is not None and any(told.get("left_behind") for told in self.group.details())

    def _outcome_alone(self, item: PlannedTest, outcome: TestOutcome) -> Outcome | None:
        """Return how a test that failed after others ends on fresh ranks; None if it is not tried.

        It is tried until a test of its clause fails there.
        """
        broken = (_name(item.subject), item.test.clause)
        came_to_an_end = {rank.outcome for rank in outcome.ranks} <= {"pass", "fail", "error"}
        died = outcome.outcome == "crash" and any(rank.signal for rank in outcome.ranks)
        if not (died or (outcome.outcome in {"fail", "error"} and came_to_an_end)) or len(self.ran) < 2:
            return None
        if self.refusals.known or broken in self.fail_alone or self._known(item):
            return None
        self.close()
        again = self.put_back(self._attempted(item, lambda: self._second_look(item, self._outcomes(item))))
        found = worst(rank.outcome for rank in again)
        self.fail_alone.update(() if found == "pass" else (broken,))
        return found

    def _dies_again(self, items: Iterable[PlannedTest]) -> bool:
        """Tell whether a rank dies if the same tests run again on fresh ranks, in the same order."""
        self.close()
        for item in items:
            again = self.put_back(self._attempted(item, functools.partial(self._outcomes, item)))
            if any(rank.signal for rank in again):
                return True
        return False

    def _attempted(
        self, item: PlannedTest, run: Callable[[], list[RankOutcome]], again: bool = True
    ) -> list[RankOutcome]:
        """Return the outcomes of a test, even if the forkserver dies or the controller raises."""
        try:
            return run()
        except ForkserverDied as error:
            self.begin_again(error)
            if self.starting and again:  # the subject of this test has not run yet
                return self._attempted(item, run, again=False)
            self.give_up.killed(item)
            return _all_ranks(item, "crash", "the forkserver was killed, and this rank with it")
        except StartFailed as error:
            if not self.starter.started:
                raise
            return _all_ranks(item, "skip", str(error))  # no subject is at fault
        except RunnerError:
            raise  # no subject is at fault if other machines cannot be reached
        except Exception as error:
            self.close()
            return _all_ranks(item, "error", f"the suite itself could not run this test: {described(error, item.size)}")

    def put_back(self, outcomes: list[RankOutcome]) -> list[RankOutcome]:
        """Undo what the test did to other processes, and record it among its changes."""
        found = tuple(self.forkserver.put_back())
        if not found:
            return outcomes
        self.close()
        return [replace(outcome, changed=outcome.changed + found) for outcome in outcomes]

    def begin_again(self, error: ForkserverDied) -> None:
        """Replace the forkserver, unless it was never ready."""
        if not self.forkserver.ready:
            raise error
        self.close()
        self.forkserver.restart()

    def never_loads(self, subject: SubjectRef | None, outcome: RankOutcome) -> None:
        """Record that a subject cannot be loaded in any world, and the outcome."""
        self.unloadable[_name(subject), 0] = [outcome]

    def close(self) -> None:
        """End the present ranks."""
        if self.group is not None:
            self.group.close()
        self.group, self.key = None, None

    def forget(self) -> None:
        """Forget everything about the subjects: their files have changed."""
        self.close()
        self.unloadable.clear()
        self.fail_alone.clear()
        self.fail_at_once.clear()
        self.refusals = Refusals()
        self.starter.failed.clear()
        self.give_up = GiveUpRule()
        self.hangs = Hangs()

    def _known(self, item: PlannedTest) -> list[RankOutcome] | None:
        """Return the cached outcomes of a test whose subject is known not to load, or None."""
        hangs = self.unloadable.get((_name(item.subject), 0))
        if hangs is not None:
            return [replace(hangs[0], rank=rank) for rank in range(item.size)]
        return self.unloadable.get((_name(item.subject), item.size))

    def _outcomes(self, item: PlannedTest, ended_at_once: bool = False) -> list[RankOutcome]:
        key = Key(item.subject, *item.world)
        known = self._known(item)
        self.starting = known is None
        self.refusals.known = False
        if item.test.transforms and not (self.group and self.group.knows_transforms):
            self.forkserver.preload(TRANSFORMS)
            self.key = None
        if item.test.compiles:
            self.forkserver.preload((item.test.module,))
        if item.test.is_fresh and self.ran:
            self.close()
        if known is None and not self._is_good_for(key):
            known = self._replace(key)
        if known is not None:
            return known
        assert self.group is not None
        self.starting = False
        self.refusals.kept |= not self.group.usable
        request = {
            "op": "test",
            "module": item.test.module,
            "function": item.test.function,
            "arguments": item.test.arguments,
            "cases": dict(item.case),
            "ended_at_once": ended_at_once,
            "resolution": self.settings.resolution,
        }
        self.ran += [] if ended_at_once else [item]
        deadline = self.settings.deadline(item.test.deadline)
        self.group.hung = self.hangs.known(_name(item.subject))
        outcomes = self.group.request(request, min(deadline, SECOND_LOOK) if ended_at_once else deadline)
        self.hangs.note(_name(item.subject), outcomes)
        self.forkserver.expect_alive()
        if self.refusals.believes(self.group, self.key, outcomes, first=len(self.ran) == 1):
            return outcomes
        self.close()
        return self._outcomes(item, ended_at_once)

    def _is_good_for(self, key: Key) -> bool:
        """Tell whether the present ranks can run another test of this subject in this world."""
        group = self.group
        return group is not None and self.key == key and (group.usable or group.refuses) and group.is_sound

    def _replace(self, key: Key) -> list[RankOutcome] | None:
        """Start fresh ranks for ``key``; return their outcomes if the subject cannot be loaded there."""
        self.close()
        group = self.starter.start(key, self.settings)
        self.starting = False
        with contextlib.ExitStack() as undo:
            undo.enter_context(group)
            if key.subject is not None or self.settings.setup:
                outcomes = self.starter.load(group, key.subject, self.settings)
                if any(outcome.outcome != "pass" for outcome in outcomes):
                    self.unloadable[_name(key.subject), key.size] = outcomes
                    return outcomes
            undo.pop_all()
        self.group, self.key, self.ran, self.refusals.kept = group, key, [], False
        return None

    def _second_look(self, item: PlannedTest, outcomes: list[RankOutcome]) -> list[RankOutcome]:
        """Run mismatched collectives again with PyTorch's distributed debugging, to quote its message."""
        broken = {outcome.outcome for outcome in outcomes} & {"error", "crash", "timeout"}
        is_told = self.settings.debug or is_simulated(self.settings.backend)  # the message is already ours
        if not (broken and item.group and at_odds(outcomes)) or is_told or self._known(item):
            return outcomes
        self.close()
        settings = replace(self.settings, debug=True, timeout=SECOND_LOOK)
        try:
            with Pool(self.forkserver, settings, self.starter.make_group) as looking:
                again = looking._outcomes(item)
        except (StartFailed, ForkserverDied):
            return outcomes
        return annotated(outcomes, again)


def _all_ranks(item: PlannedTest, outcome: Outcome, message: str) -> list[RankOutcome]:
    return [RankOutcome(rank, outcome, message) for rank in range(item.size)]


def _name(subject: SubjectRef | None) -> str:
    return f"{subject.reference or subject.label} {subject.inputs or ''}" if subject else ""
