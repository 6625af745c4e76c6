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
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from conformance.core.options import RunOptions
from conformance.core.outcomes import TestOutcome
from conformance.core.plan import PlannedTest

#: Set to anything, every run tests PyTorch itself.
FRESH = "CONFORMANCE_FRESH"
#: Variables that begin so change what PyTorch does.
VARIABLES = ("ATEN_", "CUDA_", "GLOO_", "KMP_", "LD_", "MKL_", "NCCL_", "OMP_", "PYTHON", "PYTORCH", "TORCH")
#: Files of PyTorch that are others wherever it was installed anew, or changed where its promises are kept.
OF_TORCH = (
    "version.py",
    "autograd/function.py",
    "_functorch/autograd_function.py",
    "lib/libtorch_cpu.so",
    "lib/libtorch_python.so",
)


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
        with suppress(OSError):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=self.path.parent, delete=False) as file:
                file.write(text)
            os.replace(file.name, self.path)


def engine_record(options: RunOptions, passed_on: Sequence[str]) -> EngineRecord | None:
    """The record for a run; None where it may not count.

    It does not where the user's own code runs first, where tests are picked out, and where pytest was given arguments,
    which may do either.
    """
    if options.setup or options.expression or passed_on or os.environ.get(FRESH):
        return None
    torch = importlib.util.find_spec("torch")
    if torch is None or torch.origin is None:
        return None
    environment = hashlib.sha256("\n".join(_environment(options, Path(torch.origin).parent)).encode()).hexdigest()
    place = hashlib.sha256(f"{sys.prefix} {options.backend} {options.device}".encode()).hexdigest()[:16]
    with suppress(RuntimeError):  # there is no home
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        return EngineRecord(cache / "autograd-conformance" / "engine" / f"{place}.jsonl", environment)
    return None


def _to_run(tests: Iterable[PlannedTest]) -> list[str]:
    return [test.nodeid for test in tests if test.test.tests_engine and not (test.why_not or test.left_out)]


def _environment(options: RunOptions, torch: Path) -> Iterator[str]:
    """Everything that PyTorch's outcomes hang on, as far as it can be known without importing it."""
    yield f"{sys.version} {platform.platform()} {options.backend} {options.device} {options.timeout}"
    yield from sorted(f"{name}={value}" for name, value in os.environ.items() if name.startswith(VARIABLES))
    suite = Path(__file__).parents[1]
    # A package that comes or goes changes the folder that PyTorch lies in; some are loaded by PyTorch itself.
    for path in (torch.parent, *(torch / name for name in OF_TORCH), *sorted(suite.rglob("*.py"))):
        with suppress(FileNotFoundError):
            own = path.stat()
            yield f"{path} {own.st_size} {own.st_mtime_ns}"
