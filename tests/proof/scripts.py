"""The reproduction script of every planted bug, run with torch alone: it has to say that the bug is there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import torch

from conformance.core.outcomes import BROKEN
from conformance.core.plan import PlannedTest
from conformance.prove.implementations import Implementation
from conformance.ranks.client import Forkserver
from conformance.report.failures import Failure
from conformance.report.model import SubjectResult
from conformance.reproduce.scripts import Wanted, bodies, docstring
from tests.proof.matrix import items_of, pool_for, result_of, settings_of
from tests.proof.workers import Hasty

#: The deadline of a test in a script (seconds): bugs that hang cost this much.
TIMEOUT = 30.0
SHOWN = 1
WORKERS = 2


@dataclass(frozen=True)
class Shown:
    """What became of a bug's script: its form, its status and the last it said."""

    implementation: Implementation
    test: str
    short: bool
    status: int
    said: str
    #: The status without the bug, for a bug of the engine alone: the same script on PyTorch as it is.
    innocent: int = 0

    @property
    def holds(self) -> bool:
        """Whether it showed the bug, and nothing where there is none."""
        return self.status == SHOWN and not self.innocent

    @property
    def problem(self) -> str:
        """How it ended, in words."""
        without = f", and with {self.innocent} without the bug" if self.innocent else ""
        return f"the script of {self.implementation.reference} ({self.test}) ends with {self.status}{without}"


class Alone:
    """A process that has torch and no suite, in which scripts are run one after the other."""

    def __init__(self, folder: Path | None = None, **environment: str) -> None:
        """Take where scripts find modules, the current folder if not said, and what is set for them besides."""
        self.folder = folder
        self.environment = {**os.environ, **environment}

    def __enter__(self) -> Alone:
        """Start it."""
        command = [sys.executable, "-P", str(Path(__file__).with_name("alone.py"))]
        self._process = subprocess.Popen(
            command, cwd=self.folder, env=self.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        return self

    def __exit__(self, *_: object) -> None:
        """End it, which it does where it is asked nothing more."""
        with suppress(OSError):
            self._process.communicate()

    def run(self, text: str, setup: str = "", device: str = "cpu") -> tuple[int, str]:
        """Run a script; its status and the last it said. The suite can be imported for its emulated device alone."""
        assert self._process.stdin
        assert self._process.stdout
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "script.py")
            path.write_text(text, "utf-8")
            print(
                json.dumps({"script": str(path), "setup": setup, "suite": device != "cpu"}),
                file=self._process.stdin,
                flush=True,
            )
            answer = json.loads(self._process.stdout.readline())
        return answer["status"], answer["said"]


def task(implementation: Implementation) -> Callable[[Forkserver], Wanted | None]:
    """What it takes to see a bug caught by its clause; nothing comes of it where it is not."""

    def work(forkserver: Forkserver) -> Wanted | None:
        with pool_for(implementation, forkserver) as pool:
            return _first_failure(pool, implementation)

    return work


def _first_failure(pool: Hasty, implementation: Implementation) -> Wanted | None:
    """The first failure that fresh ranks show as well; where all need earlier calls, the first."""
    first = None
    for item in items_of(implementation):
        if item.test.clause == implementation.breaks:
            outcome = pool.run(item)
            if outcome.outcome in BROKEN:
                first = first or _wanted(implementation, item, Failure(outcome))
                if outcome.outcome != "fail" or _fails_alone(pool, item):
                    return _wanted(implementation, item, Failure(outcome))
    return first


def _fails_alone(pool: Hasty, item: PlannedTest) -> bool:
    pool.close()
    return pool.run(item).outcome in BROKEN


def _wanted(implementation: Implementation, item: PlannedTest, failure: Failure) -> Wanted:
    clause = result_of(implementation.breaks, [failure.test])
    name = "" if implementation.engine else implementation.reference
    part = SubjectResult(name, implementation.spec, "fails", (clause,))
    settings = settings_of(implementation)
    return Wanted(part, clause, failure, item, torch.__version__, settings.device, settings.backend)


def shown(caught: Sequence[tuple[Implementation, Wanted]], said: Callable[[Shown], None]) -> list[Shown]:
    """Run the scripts of bugs that were caught."""
    with ThreadPoolExecutor(WORKERS) as threads:
        parts = threads.map(lambda number: _in_turn(caught[number::WORKERS], said), range(WORKERS))
        found = [one for part in parts for one in part]
    order = {implementation.reference: place for place, (implementation, _) in enumerate(caught)}
    return sorted(found, key=lambda one: order[one.implementation.reference])


def _in_turn(caught: Sequence[tuple[Implementation, Wanted]], said: Callable[[Shown], None]) -> list[Shown]:
    found = []
    with Alone() as alone:
        for implementation, wanted in caught:
            found.append(_shown(alone, implementation, wanted))
            said(found[-1])
    return found


def _shown(alone: Alone, implementation: Implementation, wanted: Wanted) -> Shown:
    head, (short, whole) = docstring(wanted), bodies(wanted, TIMEOUT)
    setup = implementation.reference if implementation.engine else ""
    status, said = alone.run(head + short) if short else (0, "")
    is_short = status == SHOWN  # as with --reproduce, where a short one that shows nothing gives way
    if not is_short:
        status, said = alone.run(head + whole, setup, implementation.device)
    innocent = alone.run(head + whole)[0] if setup else 0
    return Shown(implementation, wanted.item.name, is_short, status, said, innocent)
