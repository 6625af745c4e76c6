"""What PyTorch keeps of its own promises is tested once for an environment; later runs of a subject read it here.

The record of an environment is a file in the user's cache. It holds the outcomes of one run in which every promise that
applied was kept: a broken one is tested, and told, in every run.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import platform
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from conformance.core.caches import user_cache
from conformance.core.errors import UsageError
from conformance.core.options import RunOptions
from conformance.core.outcomes import TestOutcome
from conformance.core.plan import PlannedTest

#: Set to anything, every run tests PyTorch itself.
FRESH = "CONFORMANCE_FRESH"
#: Variables that begin so change what PyTorch does.
VARIABLES = ("ATEN_", "CUDA_", "GLOO_", "KMP_", "LD_", "MKL_", "NCCL_", "OMP_", "PYTHON", "PYTORCH", "TORCH")
#: Folders of a package that hold no code that runs.
LEFT_OUT = {"__pycache__", "include", "share"}


@dataclass(frozen=True)
class EngineRecord:
    """The record of one environment: where it is, and what has to be the same for it to count."""

    path: Path
    environment: str

    def read(self, tests: Iterable[PlannedTest]) -> tuple[str, list[TestOutcome]]:
        """When PyTorch was tested, in ISO 8601, and the outcomes of those of its tests that a run would run.

        Both are empty where the record does not have all of them.
        """
        wanted = _to_run(tests)
        try:
            head, *lines = self.path.read_text("utf-8").splitlines()
            about = json.loads(head)
            known = {outcome.nodeid: outcome for outcome in map(TestOutcome.from_text, lines)}
            if about["environment"] == self.environment:
                return str(about["tested"]), [known[name] for name in wanted]
        except (OSError, ValueError, TypeError, KeyError):
            pass  # there is none, it has fewer tests, or it was damaged
        return "", []

    def write(self, tests: Iterable[PlannedTest], outcomes: Iterable[TestOutcome], tested: str) -> None:
        """Keep the outcomes of PyTorch's own tests, where all that would run did, and found nothing broken.

        A folder that cannot be written to leaves the next run to test again.
        """
        wanted = _to_run(tests)
        good = {own.nodeid: own for own in outcomes if own.outcome in {"pass", "not-applicable"}}
        if not wanted or not good.keys() >= set(wanted):
            return
        head = json.dumps({"environment": self.environment, "tested": tested})
        text = "\n".join([head, *(good[name].to_text() for name in wanted)])
        from conformance.report import files

        with suppress(OSError, UsageError):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            files.write(self.path, text)


def engine_record(options: RunOptions, passed_on: Sequence[str]) -> EngineRecord | None:
    """The record for a run; None where it may not count.

    It does not where the user's own code runs first, where tests are picked out, where pytest was given arguments,
    which may do either, and on an accelerator, whose driver and model cannot be known here.
    """
    if options.setup or options.expression or passed_on or options.device != "cpu" or os.environ.get(FRESH):
        return None
    torch = importlib.util.find_spec("torch")
    if torch is None or torch.origin is None:
        return None
    place = hashlib.sha256(os.fsencode(sys.prefix)).hexdigest()[:16]
    with suppress(OSError, RuntimeError):  # a folder cannot be read, or there is no home
        environment = "\n".join(_environment(options, Path(torch.origin).parent))
        digest = hashlib.sha256(environment.encode("utf-8", "surrogateescape")).hexdigest()
        return EngineRecord(user_cache() / "engine" / f"{place}.jsonl", digest)
    return None


def _to_run(tests: Iterable[PlannedTest]) -> list[str]:
    return [test.nodeid for test in tests if test.test.tests_engine and not (test.why_not or test.left_out)]


def _environment(options: RunOptions, torch: Path) -> Iterator[str]:
    """Everything that PyTorch's outcomes hang on, as far as it can be known without importing it."""
    # The node too: several may share a home, and not a processor.
    yield f"{sys.version} {platform.platform()} {platform.node()} {options.backend}"
    yield from sorted(f"{name}={value}" for name, value in os.environ.items() if name.startswith(VARIABLES))
    # A package that comes or goes changes the folder that PyTorch lies in; some are loaded by PyTorch itself.
    yield f"{torch.parent} {torch.parent.stat().st_mtime_ns}"
    yield from sorted(_code(torch))
    yield from sorted(_code(Path(__file__).parents[1]))


def _code(folder: str | Path) -> Iterator[str]:
    """Every file of code below a folder, with its size and when it was changed: 2,300 of PyTorch's take 15 ms."""
    for entry in os.scandir(folder):
        if entry.is_dir(follow_symlinks=False):
            if entry.name not in LEFT_OUT:
                yield from _code(entry.path)
        elif entry.name.endswith(".py") or ".so" in entry.name:
            own = entry.stat()
            yield f"{entry.path} {own.st_size} {own.st_mtime_ns}"
