"""Run your own tests on several ranks: ``@pytest.mark.ranks(2, 4)`` and the fixture ``world``."""

from __future__ import annotations

import inspect
import sys
import tempfile
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import pytest

from conformance.core.accidents import accident_of
from conformance.core.catalog import SuiteTest
from conformance.core.errors import BROKE, RunnerError, UsageError
from conformance.core.outcomes import TestOutcome
from conformance.core.plan import PlannedTest
from conformance.core.worlds import are_world_sizes
from conformance.ranks import own_warnings
from conformance.ranks.client import Forkserver
from conformance.ranks.devices import missing_here
from conformance.ranks.giving_up import GiveUpRule
from conformance.ranks.own_warnings import Warned
from conformance.ranks.pickled import as_text
from conformance.ranks.pool import Pool
from conformance.ranks.settings import Settings

OPTIONS = ("backend", "device", "timeout", "simulated")
POOLS: pytest.StashKey[dict[Settings, Pool]] = pytest.StashKey()
FORKSERVER: pytest.StashKey[Forkserver] = pytest.StashKey()
XFAIL = "xfail: "
CANNOT_BE_SENT = (
    "the value of a fixture cannot be sent to ranks; let each rank make it, or mark the test with "
    "ranks(..., simulated=True). It is among"
)


@dataclass(frozen=True)
class Ranks:
    """Stands for ``world`` in this process: how many ranks the test needs."""

    size: int


def sizes_of(mark: pytest.Mark, definition: Any) -> tuple[int, ...]:
    """Return the world sizes of a test's mark, each once.

    Raises:
        pytest.fail.Exception: the mark has none, or something else, or the test cannot run on ranks.
    """
    if wrong := _misused(mark, definition):
        pytest.fail(f"{definition.nodeid}: {wrong}", pytrace=False)
    return tuple(dict.fromkeys(mark.args))


def _misused(mark: pytest.Mark, definition: Any) -> str:
    """Say what is wrong with a mark, or with the test that has it; empty if nothing is."""
    unknown, timeout = [name for name in mark.kwargs if name not in OPTIONS], mark.kwargs.get("timeout", 1.0)
    if unknown:
        return f"@pytest.mark.ranks knows no {', '.join(unknown)}; it knows {', '.join(OPTIONS)}"
    if not are_world_sizes(mark.args):
        return f"@pytest.mark.ranks takes world sizes, as in ranks(2, 4), not ({', '.join(map(repr, mark.args))})"
    if type(timeout) not in {int, float} or timeout <= 0:
        return f"@pytest.mark.ranks takes timeout= in seconds, not {timeout!r}"
    if mark.kwargs.get("simulated") and len(mark.kwargs) > 1:
        others = ", ".join(f"{name}=" for name in mark.kwargs if name != "simulated")
        return f"@pytest.mark.ranks(simulated=True) runs all ranks on the CPU of this process, and ignores {others}"
    if "world" not in definition._fixtureinfo.argnames:
        return "a test with @pytest.mark.ranks takes the fixture world itself, as in def test_x(world)"
    if inspect.iscoroutinefunction(definition.obj):
        return "an async def does not run on ranks; call asyncio.run in a plain function"
    return ""


def run_on_ranks(item: pytest.Function, size: int) -> None:
    """Run a test's body on ranks, and turn the joined outcome into pytest's own."""
    mark = item.get_closest_marker("ranks")
    assert mark is not None
    options = dict(mark.kwargs)
    values = {name: item.funcargs[name] for name in item._fixtureinfo.argnames if name != "world"}
    if options.pop("simulated", False) or item.config.getoption("usepdb", False):
        _run_simulated(item.obj, size, values)
        return
    with tempfile.TemporaryDirectory() as folder:
        planned, settings = _planned(item, size, values, folder), Settings(**options)
        try:
            pool = _pool(item.config, settings)
            _need_devices(item.config.stash[FORKSERVER], settings, size)
            pool.give_up = GiveUpRule()  # one test says nothing about the next
            outcome = pool.run(planned)
        except RunnerError as error:
            pytest.exit(str(error), returncode=BROKE)
        warned = own_warnings.read(Path(folder), size)
    with _warning_again(warned):
        _tell(item, outcome)


@contextmanager
def _warning_again(warned: dict[int, list[Warned]]) -> Iterator[None]:
    """Warn at the end of what ranks noted; a filter that makes errors of warnings hides no failure of the block."""
    try:
        yield
    except BaseException:
        with suppress(Warning):
            own_warnings.warn_again(warned)
        raise
    error: Warning | None = None
    try:
        own_warnings.warn_again(warned)
    except Warning as raised:
        error = raised
    if error is not None:
        said = "a filter makes an error of this warning"
        pytest.fail(f"{said}: {type(error).__name__}: {error}\n{''.join(error.__notes__)}", pytrace=False)


def _need_devices(forkserver: Forkserver, settings: Settings, size: int) -> None:
    """Skip the test if there are not enough devices; fail it if PyTorch knows no such device or backend."""
    backend, device = settings.backend, settings.device
    if (backend, device) == ("gloo", "cpu"):
        return
    forkserver.wait()
    why = unknown = ""
    try:
        why = missing_here(size, True, backend=backend, device=device, hardware=forkserver.hardware)
    except UsageError as error:
        unknown = str(error).removeprefix("--")
    if unknown:
        pytest.fail(f"@pytest.mark.ranks: {unknown}", pytrace=False)
    if why:
        _skip(why)


def _skip(why: str) -> NoReturn:
    """Skip the test, at its own place in the summary."""
    raise pytest.skip.Exception(why, _use_item_location=True)


def _run_simulated(function: Any, size: int, values: dict[str, Any]) -> None:
    """Run a body on ranks that are threads of this process; an exception of one is raised here unchanged."""
    from conformance.ranks.simulated.simulation import Simulation

    raised: dict[int, BaseException] = {}
    warned: dict[int, list[Warned]] = {rank: [] for rank in range(size)}

    def body(world: Any) -> None:
        try:
            with own_warnings.noted(warned[world.rank].append):
                function(world=world, **values)
        except BaseException as error:
            raised[world.rank] = error
            raise

    with Simulation(size) as simulation:
        outcomes = simulation.run(body)
        proof, stuck = simulation.scheduler.proof, simulation.scheduler.stuck
    with _warning_again(warned):
        for rank, error in sorted(raised.items()):
            if rank not in stuck:
                alike = 1 < size == len({*raised} - stuck) and len({*map(_ending_of, raised.values())}) == 1
                error.add_note(f"on all {size} ranks; this is rank {rank}" if alike else f"on rank {rank} of {size}")
                raise error
        if any(outcome.outcome != "pass" for outcome in outcomes):
            pytest.fail(proof, pytrace=False)


def _ending_of(error: BaseException) -> tuple[object, ...]:
    """Return the type of an exception and the lines that it passed: equal ones have the same cause."""
    frames = traceback.extract_tb(error.__traceback__)
    return type(error), *((frame.filename, frame.lineno) for frame in frames)


def _on_all(outcome: TestOutcome) -> str:
    """Say that all ranks failed alike, if they did."""
    ends = {(rank.bystander, accident_of(rank, rank.message.partition("\n")[0])) for rank in outcome.ranks}
    return f" on all {len(outcome.ranks)} ranks; " if len(ends) == 1 < len(outcome.ranks) else ": "


def _tell(item: pytest.Function, outcome: TestOutcome) -> None:
    for rank in outcome.ranks:
        if rank.output:
            item.add_report_section("call", f"output of rank {rank.rank}", rank.output)
    if outcome.outcome in {"skip", "not-applicable"}:
        if outcome.reason.startswith(XFAIL):
            pytest.xfail(outcome.reason.removeprefix(XFAIL))
        _skip(outcome.reason)
    if outcome.outcome != "pass":
        likely = f"\nlooks like: {outcome.likely}"
        likely = likely if outcome.likely and likely not in outcome.message else ""
        stacks = [
            f"\nstack of rank {rank.rank}:\n{rank.stack}" for rank in outcome.ranks if rank.stack and not rank.bystander
        ]
        pytest.fail(f"{outcome.outcome}{_on_all(outcome)}{outcome.message}{likely}{''.join(stacks)}", pytrace=False)


def _planned(item: pytest.Function, size: int, values: dict[str, Any], folder: str) -> PlannedTest:
    if "monkeypatch" in values:
        values["monkeypatch"] = True  # each rank has its own
    pickled, problem = "", ""
    try:
        pickled = as_text(values)
    except Exception as error:
        problem = f"{CANNOT_BE_SENT} {', '.join(sorted(values))}: {type(error).__name__}: {error}"
    if problem:
        pytest.fail(problem, pytrace=False)
    module = item.module.__name__
    target = f"{module}:{item.obj.__qualname__}"
    test = SuiteTest(
        module="conformance.ranks.own_tests",
        function="run",
        clause="",
        ranks=(size,),
        group=True,
        cases=(),
        arguments=("world", "path", "target", "values", "warned"),
        doc="",
        transforms=False,
        compiles=False,
        deadline=None,
        file=item.path,
        line=item.reportinfo()[1] or 0,
    )
    case = (("path", tuple(filter(None, sys.path))), ("target", target), ("values", pickled), ("warned", folder))
    return PlannedTest(test, None, size, True, case)


def _pool(config: pytest.Config, settings: Settings) -> Pool:
    """Return the ranks of a run with these settings; they end with the run."""
    if FORKSERVER not in config.stash:
        config.stash[FORKSERVER] = Forkserver()
        config.add_cleanup(config.stash[FORKSERVER].close)
    pools = config.stash.setdefault(POOLS, {})
    if settings not in pools:
        pools[settings] = Pool(config.stash[FORKSERVER], settings)
        config.add_cleanup(pools[settings].close)
    return pools[settings]
