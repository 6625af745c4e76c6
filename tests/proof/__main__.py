"""``python -m tests.proof``: the kill matrix, the mutants, the bugs' scripts; fail where the proof does.

``python -m tests.proof peers`` asks PyTorch's own checks about the same bugs, ``python -m tests.proof operators`` about
the planted operators; ``python -m tests.proof resolution`` says
how small an error of a gradient is found, by kernel and dtype; ``python -m tests.proof constants`` changes each
threshold of the oracles tenfold, both ways; ``python -m tests.proof kit`` makes mutants of the oracles themselves;
``python -m tests.proof simulated`` compares the verdicts of simulated worlds with those on Gloo;
``python -m tests.proof pytorch`` judges PyTorch's own operators, and mutants of their gradients.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from benchmarks.measure import machine
from conformance.core import clauses
from conformance.core.errors import BAD_USAGE
from conformance.core.prose import counted
from conformance.prove.implementations import Implementation
from tests.proof import implementations, matrix, mutation, scripts, simulated
from tests.proof.matrix import Row
from tests.proof.mutation import Fate
from tests.proof.workers import side_by_side

DATA = Path(__file__).parents[2] / "docs" / "data"
MATRIX, MUTANTS, SCRIPTS, PEERS, SIMULATED, PYTORCH = (
    DATA / f"{name}.json" for name in ("kill-matrix", "mutants", "scripts", "peers", "simulated", "pytorch")
)
PARTS = (
    "all",
    "matrix",
    "mutants",
    "scripts",
    "peers",
    "operators",
    "resolution",
    "constants",
    "kit",
    "simulated",
    "pytorch",
)
#: How often a right gradient is judged for each of 80 cells, with other numbers each time: 1,040 runs.
FRESH_RUNS = 13
EXPLAINED = Path(__file__).parent / "equivalent.json"


def main(argv: Sequence[str] | None = None) -> int:
    """Compute, write, and say whether the proof holds."""
    parser = argparse.ArgumentParser(prog="python -m tests.proof", description=__doc__)
    parser.add_argument("part", nargs="?", choices=PARTS, default="all")
    parser.add_argument("--only", default="", help="implementations or mutants whose names hold this text")
    parser.add_argument("--new", action="store_true", help="ask only implementations that the data lack, and add them")
    parser.add_argument("--quick", action="store_true", help="matrix, pytorch: ask less of each, or few")
    parser.add_argument("--check", action="store_true", help="do not write the data, only judge")
    parser.add_argument("--dtype", help="pytorch: float32, say, instead of float64 and complex128; not written")
    parser.add_argument("--device", default="cpu", help="matrix, resolution: where they run (default cpu)")
    parser.add_argument("--into", type=Path, help="matrix, resolution: the folder of the table, also of a part")
    arguments = parser.parse_args(argv)
    if arguments.quick and arguments.part not in {"matrix", "pytorch"}:
        parser.error("--quick goes with matrix or pytorch")
    if arguments.new and arguments.part in {"all", "mutants"}:
        parser.error("--new goes not with mutants: each is new whenever the reference changes")
    only, write = arguments.only, not (arguments.check or arguments.only or arguments.quick or arguments.dtype)
    start = time.monotonic()
    if arguments.part == "operators":
        from tests.proof import operators  # it imports torch, as peers does

        return operators.main(arguments.only, write)
    if arguments.part == "resolution":
        write = write or bool(arguments.into)
        return _resolution(only, arguments.device, (arguments.into or DATA) if write else None)
    if arguments.part == "constants":
        return _constants(only, write)
    if arguments.part == "kit":
        return _kit(arguments.only, write)
    if arguments.part == "simulated":
        return _simulated(Asked(SIMULATED, only, arguments.new), write)
    if arguments.part == "pytorch":
        return _pytorch(Asked(PYTORCH, only, arguments.new), write, arguments.quick, arguments.dtype)
    if only and arguments.part != "all" and not any(only in name for name in _names(arguments.part)):
        kind = "mutant" if arguments.part == "mutants" else "planted bug or correct implementation"
        parser.exit(BAD_USAGE, f"no {kind} has {only!r} in its name\n")
    if arguments.part == "peers":
        return _peers(Asked(PEERS, only, arguments.new), write)
    problems = []
    if arguments.part in {"all", "matrix"}:
        asked = Asked(MATRIX, only, arguments.new)
        if arguments.device == "cpu":
            problems += _matrix(asked, write, arguments.quick)
        else:
            problems += _matrix_on(arguments.device, asked, arguments.into or DATA)
    if arguments.part in {"all", "mutants"}:
        problems += _mutants(only, write)
    if arguments.part in {"all", "scripts"}:
        problems += _scripts(Asked(SCRIPTS, only, arguments.new), write)
    for problem in problems:
        print(problem)
    print(f"{counted(len(problems), 'problem')}, {time.monotonic() - start:.0f} s")
    return int(bool(problems))


@dataclass
class Asked:
    """Which implementations are asked for a data file, and what becomes of the rows that it has."""

    file: Path
    only: str
    new: bool
    data: dict[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        """Read what the file has."""
        self.data = json.loads(self.file.read_text(encoding="utf-8"))
        self.known = {row["implementation"]: row for row in self.data["rows"]}

    def of(self, implementations: Iterable[Implementation]) -> list[Implementation]:
        """Those that are asked."""
        self.all = [one.reference for one in implementations]
        wanted = [one for one in implementations if self.only in one.reference]
        return [one for one in wanted if not (self.new and one.reference in self.known)]

    def write(self, rows: Iterable[dict[str, Any]], **others: Any) -> None:
        """Write the file anew, or with these rows among those that it has."""
        found = {**(self.known if self.new else {}), **{row["implementation"]: row for row in rows}}
        ordered = [found[name] for name in self.all if name in found]
        about = {**self.data, "added": machine()} if self.new else {**others, "machine": machine()}
        self.data = data = {**about, "rows": ordered}
        self.file.write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _names(part: str) -> list[str]:
    """What a part of the proof may be asked about."""
    if part == "mutants":
        return [one.name for one in mutation.all_mutants()]
    good = [] if part == "scripts" else implementations.correct()
    return [one.reference for one in (*implementations.planted(), *good)]


def _dot(_: object) -> None:
    print(".", end="", flush=True)


def _resolution(only: str, device: str, into: Path | None) -> int:
    from tests.proof import resolution  # it imports torch, as peers does

    found = []
    for cell in resolution.cells(FRESH_RUNS, only, device):
        found.append(cell)
        _dot(cell)
    text, problems = resolution.page(found, device), [problem for cell in found for problem in cell.problems]
    print(f"\n{text}" if only else "")
    print("\n".join([*problems, counted(len(problems), "problem")]))
    if into:
        (into / f"resolution{'' if device == 'cpu' else f'-{device}'}.md").write_text(text, encoding="utf-8")
    return int(bool(problems))


def _constants(only: str, write: bool) -> int:
    from tests.proof import constants  # it imports torch, as peers does

    found = constants.rows(only, _dot)
    print()
    print(constants.page(found))
    if write:
        (DATA / "constants.md").write_text(constants.page(found), encoding="utf-8")
    unnoticed = [row.name for row in found if not row.is_noticed]
    print(f"{counted(len(found), 'threshold')}; noticed by nobody: {', '.join(unnoticed) or 'none'}")
    return 0  # in ten seconds each: to be looked at, and no proof that they can go


def _kit(only: str, write: bool) -> int:
    from tests.proof import kit_mutants  # it imports torch, as peers does

    fates = kit_mutants.fates(kit_mutants.all_mutants(only), _dot)
    print()
    for fate in fates:
        if not fate.noticed.by:
            print(f"line {fate.mutant.line} of {fate.mutant.name} survives {counted(fate.noticed.asked, 'test')}")
    print(kit_mutants.page(fates))
    if write:
        (DATA / "kit-mutants.md").write_text(kit_mutants.page(fates), encoding="utf-8")
    return 0


def _simulated(asked: Asked, write: bool) -> int:
    wanted = asked.of(simulated.communicating([*implementations.planted(), *implementations.correct()]))
    rows: list[dict[str, Any]] = []
    problems: list[simulated.Cell] = []

    def keep(found: tuple[Implementation, list[simulated.Cell]]) -> None:
        rows.append(simulated.row(*found))
        problems.extend(cell for cell in found[1] if cell.is_wrong)
        if write:  # at once: it takes longer than most people wait
            asked.write(rows)
            SIMULATED.with_suffix(".md").write_text(simulated.page(asked.data["rows"]), encoding="utf-8")
        _dot(found)

    side_by_side([simulated.task(one) for one in wanted], keep)
    print(f"\n{simulated.page(rows)}{counted(len(problems), 'verdict')} that only simulated ranks find broken")
    return int(bool(problems))


def _pytorch(asked: Asked, write: bool, quick: bool, dtype: str | None) -> int:
    from tests.proof import pytorch  # it imports torch, as peers does

    start = time.monotonic()
    wanted = asked.of(pytorch.entries([dtype] if dtype else pytorch.DTYPES))
    found: list[dict[str, Any]] = []
    for row in pytorch.rows(wanted[:: pytorch.QUICKLY] if quick else wanted):
        found.append(row)
        _dot(row)
        if write and len(found) % 20 == 0:  # it takes longer than most people wait
            asked.write(found)
    if write:
        asked.write(found)
        found = asked.data["rows"]
        PYTORCH.with_suffix(".md").write_text(pytorch.page(found, pytorch.reasons()), encoding="utf-8")
    bad = pytorch.problems(found, pytorch.reasons(), whole=write)
    print(f"\n{pytorch.page(found, pytorch.reasons())}")
    print("\n".join([*bad, f"{counted(len(bad), 'problem')}, {time.monotonic() - start:.0f} s"]))
    return int(bool(bad))


def _peers(asked: Asked, write: bool) -> int:
    from tests.proof import peers  # it imports torch, which the other parts leave to their ranks

    rows = peers.rows(asked.of(implementations.of_the_contract()), _dot)
    print()
    for name in peers.CHECKS:
        bugs, good = ([row for row in rows if bool(row.implementation.breaks) is bad] for bad in (True, False))
        noticed = [sum(row.said[name] == peers.NOTICES for row in part) for part in (bugs, good)]
        print(f"{name}: notices {noticed[0]} of {len(bugs)} bugs, refuses {noticed[1]} of {len(good)} correct ones")
    if write:
        checks = {name: " ".join((check.__doc__ or "").split()) for name, check in peers.CHECKS.items()}
        asked.write([row.to_json() for row in rows], checks=checks)
    return 0


def _matrix(asked: Asked, write: bool, quick: bool) -> list[str]:
    wanted = asked.of([*implementations.planted(), *implementations.correct()])
    start, before = time.perf_counter(), _processor_seconds()
    rows = side_by_side([matrix.task(one, quick) for one in wanted], _dot)
    print()
    bugs = [row for row in rows if row.implementation.breaks]
    good = [row for row in rows if not row.implementation.breaks]
    problems = [problem for row in rows for problem in wrong(row, asked.known.get(row.implementation.reference, {}))]
    if not (asked.only or asked.new):
        problems += _gaps(bugs)
    caught, alone = (sum(row.caught for row in bugs), sum(not row.also for row in bugs))
    alarms = sum(bool(row.also) for row in good)
    for row in rows if asked.only else ():
        print(_told(row))
    print(f"{counted(len(bugs), 'planted bug')}: {caught} caught, {alone} of them break that clause alone")
    unjudged = sum(bool(row.unjudged) for row in good)
    print(f"{counted(len(good), 'correct implementation')}, false alarms: {alarms}, not judged in full: {unjudged}")
    if write:
        cost = {
            "clauses": len(clauses.registry()),
            "seconds": round(time.perf_counter() - start),
            "processor_seconds": round(_processor_seconds() - before),
        }
        asked.write([_row(row) for row in rows], ranks=list(matrix.RANKS), **cost)
    return problems


def _matrix_on(device: str, asked: Asked, into: Path) -> list[str]:
    """Ask all classes of the CPU on a device, right ones first, and write what was found so far after each."""
    from tests.proof import on_device  # it imports torch

    wanted = asked.of([*implementations.correct(), *implementations.planted()])
    wanted = [replace(one, device=device) for one in wanted if one.device == "cpu" and not one.engine]
    rows: list[Row] = []

    def keep(row: Row) -> None:
        rows.append(row)
        (into / f"matrix-{device}.md").write_text(on_device.page(rows, len(wanted), device), encoding="utf-8")
        _dot(row)

    side_by_side([matrix.task(one, quick=True) for one in wanted], keep)
    print(f"\n{on_device.page(rows, len(wanted), device)}")
    return [problem for row in rows for problem in wrong(row, {"unjudged": row.unjudged})]


def _told(row: Row) -> str:
    """What one implementation breaks."""
    own = row.implementation.breaks
    if not own:
        left = f"; not judged: {', '.join(row.unjudged)}" if row.unjudged else ""
        return f"{row.implementation.reference}: breaks {', '.join(row.also) or 'nothing'}{left}"
    also = f"; also breaks {', '.join(row.also)}" if row.also else ""
    return f"{row.implementation.reference}: {own} {'caught' if row.caught else 'not caught'}{also}"


def _processor_seconds() -> float:
    """Of this process, and of all that it has waited for."""
    usages = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def wrong(row: Row, known: Mapping[str, Collection[str]]) -> list[str]:
    """What is wrong with a row, given the one that was last written: its other broken clauses, and those not judged.

    Nobody lists those by hand: they are measured. But a clause that joins them says that a test has become careless,
    or that the bug has become another one, and somebody is to look before it is written down. Likewise a right class
    that a clause does not judge any more.
    """
    name, bug = row.implementation.reference, row.implementation.breaks
    if bug and bug not in clauses.registry():
        return [f"{name} says that it breaks {bug}, which is no clause"]
    problems = [] if not bug or row.caught else [f"{name} survives: {bug} did not notice it"]
    verb = "now also breaks" if bug else "is a false alarm:"
    problems += [
        f"{name} {verb} {clause}: {row.broken[clause]}" for clause in row.also if clause not in known.get("also", ())
    ]
    left = {} if bug else row.unjudged
    return problems + [
        f"{name} is not judged by {clause}: {why}"
        for clause, why in left.items()
        if clause not in known.get("unjudged", ())
    ]


def _gaps(bugs: Sequence[Row]) -> list[str]:
    killing = {row.implementation.breaks for row in bugs if row.caught}
    return [f"{clause} kills no planted bug" for clause in clauses.registry() if clause not in killing]


def _row(row: Row) -> dict[str, Any]:
    implementation = row.implementation
    return {
        "implementation": implementation.reference,
        "spec": implementation.spec,
        "engine": implementation.engine,
        "text": implementation.text,
        "breaks": implementation.breaks,
        "also": list(row.also),
        "caught": row.caught if implementation.breaks else None,
        "broken": sorted(row.broken),
        "consequences": dict(sorted(row.consequences.items())),
        "unjudged": [] if implementation.breaks else list(row.unjudged),
        "kept": list(row.kept),
        "ranks": row.ranks,
    }


def _mutants(only: str, write: bool) -> list[str]:
    fates = side_by_side(mutation.tasks([one for one in mutation.all_mutants() if only in one.name]), _dot)
    print()
    explained = json.loads(EXPLAINED.read_text(encoding="utf-8")) if EXPLAINED.exists() else {}
    survivors = [fate for fate in fates if fate.survived]
    problems = [f"mutant survives: line {fate.mutant.line} of {fate.mutant.name}" for fate in survivors]
    problems = [problem for problem, fate in zip(problems, survivors, strict=True) if fate.mutant.name not in explained]
    alive = {fate.mutant.name for fate in survivors}
    problems += [f"explained, but no survivor: {name}" for name in explained if only in name and name not in alive]
    killed = len(fates) - len(survivors)
    print(f"{len(fates)} mutants of the reference: {killed} killed, {len(survivors)} survived")
    if write:
        text = json.dumps(_figure(fates, explained), indent=1, ensure_ascii=False)
        MUTANTS.write_text(text + "\n", encoding="utf-8")
    return problems


def _figure(fates: Sequence[Fate], explained: dict[str, str]) -> dict[str, Any]:
    survivors = [fate for fate in fates if fate.survived]
    return {
        "machine": machine(),
        "mutants": len(fates),
        "killed": len(fates) - len(survivors),
        "by_module": dict(sorted(Counter(fate.mutant.module for fate in fates).items())),
        "survivors": [{"mutant": fate.mutant.name, "why": explained.get(fate.mutant.name, "")} for fate in survivors],
    }


def _scripts(asked: Asked, write: bool) -> list[str]:
    bugs = asked.of(implementations.planted())
    pairs = zip(bugs, side_by_side([scripts.task(bug) for bug in bugs], _dot), strict=True)
    found = scripts.shown([(bug, wanted) for bug, wanted in pairs if wanted], _dot)
    print(f"\n{len(found)} scripts of {len(bugs)} planted bugs: {sum(one.holds for one in found)} show the bug")
    if write:
        asked.write(
            {"implementation": one.implementation.reference, "shown": one.holds, "short": one.short} for one in found
        )
    return [f"{one.problem}: {one.said.strip()[-300:]}" for one in found if not one.holds]


if __name__ == "__main__":
    sys.exit(main())
