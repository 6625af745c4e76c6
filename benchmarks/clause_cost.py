"""What one more clause costs in processor time: what all of them take beyond the first, shared out."""

from __future__ import annotations

import sys
from typing import Any

from benchmarks.measure import figures, in_turn
from conformance.core import clauses

REFERENCE = "the whole reference, worlds 1 to 4"
RUN = [sys.executable, "-m", "conformance", "run"]
FUNCTION = [*RUN, "benchmarks.subjects:function"]
#: What each run is asked for, and the same for one clause alone.
RUNS = {
    "one Function, with compile": (FUNCTION, [*FUNCTION, "-k", "test_one_value_for_each_input"]),
    REFERENCE: (RUN, [*RUN, "-k", "test_one_value_for_each_input"]),
}


def measure(rounds: int) -> dict[str, Any]:
    """Seconds of a run with all clauses, processor seconds with all and with one, and how many clauses there are."""
    registry = clauses.registry().values()
    counts = [sum(clause.spec == "Function" for clause in registry), len(registry)]
    found = {}
    for (name, (every, one)), count in zip(RUNS.items(), counts, strict=True):
        runs = in_turn({"all": every, "one": one}, rounds)
        cpu = {which: figure.to_json() for which, figure in figures(runs, "cpu").items()}
        found[name] = {"clauses": count, "seconds": figures(runs)["all"].to_json(), **cpu}
    return found
