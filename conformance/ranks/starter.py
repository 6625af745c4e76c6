"""Start rank groups and load subjects on them; give up after repeated failures."""

from __future__ import annotations

import contextlib
import errno
import resource
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from conformance.core.catalog import PACKAGE
from conformance.core.errors import StartFailed
from conformance.core.joining import join
from conformance.core.outcomes import BAD_SUBJECT, RankOutcome
from conformance.core.plan import PlannedTest, SubjectRef
from conformance.ranks.client import Forkserver
from conformance.ranks.group import RankGroup
from conformance.ranks.preloads import TRANSFORMS
from conformance.ranks.settings import Settings

#: How long new ranks may take to report; a machine under load is slow, not broken (seconds).
START_LIMIT = 60.0
IMPORTING = "while the subject was imported"
#: After this many failed starts in a row of one world size, no more are tried.
FAILED_STARTS = 3


@dataclass(frozen=True)
class Key:
    """Identify a rank group by subject and world; tests of the compiler have ranks of their own."""

    subject: SubjectRef | None
    size: int
    group: bool
    compiles: bool = False


class Starter:
    """Start the rank groups of a run."""

    def __init__(self, forkserver: Forkserver, make_group: Callable[..., Any]) -> None:
        self.forkserver = forkserver
        self.make_group = make_group  # on ranks of this machine, or of several
        self.started = False
        self.failed: dict[int, list[str]] = {}
        self.files: set[str] = set()  # source files of the subjects so far
        self.modules: tuple[str, ...] = ()  # modules of the tests to come
        #: And what else some of them do, which takes long, by the ranks that run meanwhile: the last that do without.
        self.meanwhile: dict[Key, list[Sequence[str]]] = {}

    def look_ahead(self, items: Iterable[PlannedTest]) -> None:
        """Note the planned tests, so that modules are imported once and not on every rank.

        A specification from outside is imported on ranks alone: what it does then stays there.
        """
        planned = [item for item in items if not item.left_out]
        ours = [item.test for item in planned if item.test.module.startswith(f"{PACKAGE}.")]
        self.modules = tuple(sorted({test.module for test in ours if not test.compiles}))
        compiler = tuple(sorted({test.module for test in ours if test.compiles}))
        transforming = (at for at, item in enumerate(planned) if item.test.transforms)
        compiling = (at for at, item in enumerate(planned) if item.test.compiles)
        self.meanwhile = {}
        for first, modules in ((next(transforming, 0), TRANSFORMS), (next(compiling, 0), compiler)):
            if first:
                before = planned[first - 1]
                key = Key(before.subject, *before.world)
                self.meanwhile.setdefault(key, []).append(modules)

    def start(self, key: Key, settings: Settings) -> RankGroup:
        """Start ranks, and wait until they report that they are ready.

        Raises:
            StartFailed: they have not.
        """
        failed = self.failed.setdefault(key.size, [])
        if len(failed) >= FAILED_STARTS:
            raise StartFailed(failed[-1])
        try:
            group = self._ready(key, settings)
        except OSError as error:
            raise StartFailed(described(error, key.size)) from error
        except StartFailed as error:
            failed.append(str(error))
            raise
        failed.clear()
        self.started = True
        # While these ranks are busy. No others can be forked meanwhile, so that nothing is imported before its time.
        self.forkserver.preload(self.modules)
        if waiting := self.meanwhile.get(key):
            self.forkserver.preload(waiting.pop(0))
        return group

    def _ready(self, key: Key, settings: Settings) -> RankGroup:
        group: RankGroup = self.make_group(
            self.forkserver, key.size, settings.backend, settings.device, key.group, settings.debug
        )
        with contextlib.ExitStack() as undo:
            undo.enter_context(group)
            outcomes = group.request(None, START_LIMIT)
            if any(outcome.outcome != "pass" for outcome in outcomes):
                _, message = join(outcomes, key.size)
                raise StartFailed(f"{key.size} ranks did not start with {settings.backend}: {message}")
            undo.pop_all()
        return group

    def load(
        self,
        group: RankGroup,
        subject: SubjectRef | None,
        settings: Settings,
        look: Literal["samples", "types"] | None = None,
    ) -> list[RankOutcome]:
        """Have ranks import a subject and, if requested, make its samples or compare its types with a call."""
        request = {
            "op": "load",
            "path": settings.path,
            "setup": settings.setup,
            "subject": subject.reference or None if subject else None,
            "spec": subject.spec or None if subject else None,
            "inputs": subject.inputs if subject else None,
            "types": subject.types if subject else None,
            "payload": subject.payload if subject else "",
            "look": look,
        }
        outcomes = group.request(request, settings.timeout)
        self.files.update(file for details in group.details() for file in details.get("files", ()))
        group.usable = True
        return [
            outcome
            if outcome.outcome == "pass" or cannot_be_tested(outcome, details)
            else replace(outcome, message=f"{IMPORTING}: {outcome.message}")
            for outcome, details in zip(outcomes, group.details(), strict=True)
        ]


def cannot_be_tested(outcome: RankOutcome, details: Mapping[str, Any]) -> bool:
    """Tell whether a rank that loaded a subject reports that it cannot be tested.

    Args:
        outcome: the rank's outcome.
        details: its whole reply.
    """
    return outcome.outcome == "error" and details.get("outcome") == BAD_SUBJECT


def described(error: Exception, size: int) -> str:
    """Describe an error in the controller, and what to do about it if that is known."""
    if isinstance(error, OSError) and error.errno == errno.EMFILE:
        most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        return f"{size} ranks need more open files than the {most} that this process may have; raise `ulimit -n`"
    return f"{type(error).__name__}: {error}"
