"""``python -m tests.proof``: compute the kill matrix and the mutation figure; fail where the proof does."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from conformance.core import clauses
from tests.proof import implementations, matrix, mutation
from tests.proof.matrix import Row
from tests.proof.mutation import Fate
from tests.proof.workers import side_by_side

DATA = Path(__file__).parents[2] / "docs" / "data"
MATRIX = DATA / "kill-matrix.json"
EXPLAINED = Path(__file__).parent / "equivalent.json"


def main(argv: Sequence[str] | None = None) -> int:
    """Compute, write, and say whether the proof holds."""
    parser = argparse.ArgumentParser(prog="python -m tests.proof", description=__doc__)
    parser.add_argument("part", nargs="?", choices=["all", "matrix", "mutants"], default="all")
    parser.add_argument("--only", default="", help="implementations or mutants whose names hold this text")
    parser.add_argument("--check", action="store_true", help="do not write the data, only judge")
    arguments = parser.parse_args(argv)
    only, write = arguments.only, not (arguments.check or arguments.only)
    start = time.monotonic()
    wanted = [*implementations.planted(), *implementations.correct()] if arguments.part != "mutants" else []
    wanted = [implementation for implementation in wanted if only in implementation.reference]
    mutated = [mutant for mutant in mutation.all_mutants() if only in mutant.name] if arguments.part != "matrix" else []
    jobs = [*map(matrix.task, wanted), *mutation.tasks(mutated)]
    found = side_by_side(jobs, lambda _: print(".", end="", flush=True))
    print()
    problems = _matrix(found[: len(wanted)], only, write) if arguments.part != "mutants" else []
    problems += _mutants(found[len(wanted) :], only, write) if arguments.part != "matrix" else []
    for problem in problems:
        print(problem)
    print(f"{len(problems)} problems, {time.monotonic() - start:.0f} s")
    return int(bool(problems))


def _matrix(rows: Sequence[Row], only: str, write: bool) -> list[str]:
    bugs = [row for row in rows if row.implementation.breaks]
    good = [row for row in rows if not row.implementation.breaks]
    known = {row["implementation"]: row["also"] for row in json.loads(MATRIX.read_text(encoding="utf-8"))["rows"]}
    problems = [problem for row in rows for problem in wrong(row, known.get(row.implementation.reference))]
    if not only:
        problems += _gaps(bugs)
    caught, alone = (sum(row.caught for row in bugs), sum(not row.also for row in bugs))
    alarms = sum(bool(row.broken) for row in good)
    print(f"{len(bugs)} planted bugs: {caught} caught, {alone} of them break that clause alone")
    print(f"{len(good)} correct implementations, false alarms: {alarms}")
    if write:
        _write(MATRIX.name, {"ranks": list(matrix.RANKS), "rows": [_row(row) for row in rows]})
    return problems


def wrong(row: Row, known: Sequence[str] | None) -> list[str]:
    """What is wrong with a row, given the other clauses that its bug broke when the matrix was last written.

    Nobody lists those by hand: they are measured. But a clause that joins them says that a test has become careless,
    or that the bug has become another one, and somebody is to look before it is written down.
    """
    name, bug = row.implementation.reference, row.implementation.breaks
    if bug and bug not in clauses.registry():
        return [f"{name} says that it breaks {bug}, which is no clause"]
    problems = [] if not bug or row.caught else [f"{name} survives: {bug} did not notice it"]
    verb = "now also breaks" if bug else "is a false alarm:"
    new = [clause for clause in row.also if clause not in (known or ())]
    return problems + [f"{name} {verb} {clause}: {row.broken[clause]}" for clause in new]


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
        "kept": list(row.kept),
        "ranks": row.ranks,
    }


def _mutants(fates: Sequence[Fate], only: str, write: bool) -> list[str]:
    explained = json.loads(EXPLAINED.read_text(encoding="utf-8")) if EXPLAINED.exists() else {}
    survivors = [fate for fate in fates if fate.survived]
    problems = [f"mutant survives: line {fate.mutant.line} of {fate.mutant.name}" for fate in survivors]
    problems = [problem for problem, fate in zip(problems, survivors, strict=True) if fate.mutant.name not in explained]
    alive = {fate.mutant.name for fate in survivors}
    problems += [f"explained, but no survivor: {name}" for name in explained if only in name and name not in alive]
    killed = len(fates) - len(survivors)
    print(f"{len(fates)} mutants of the reference: {killed} killed, {len(survivors)} survived")
    if write:
        _write("mutants.json", _figure(fates, explained))
    return problems


def _figure(fates: Sequence[Fate], explained: dict[str, str]) -> dict[str, Any]:
    survivors = [fate for fate in fates if fate.survived]
    return {
        "mutants": len(fates),
        "killed": len(fates) - len(survivors),
        "by_module": dict(sorted(Counter(fate.mutant.module for fate in fates).items())),
        "survivors": [{"mutant": fate.mutant.name, "why": explained.get(fate.mutant.name, "")} for fate in survivors],
    }


def _write(name: str, data: dict[str, Any]) -> None:
    DATA.mkdir(parents=True, exist_ok=True)
    (DATA / name).write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
