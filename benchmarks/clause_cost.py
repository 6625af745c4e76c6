"""What one more clause costs in processor time: what all of them take beyond the first, shared out."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

from benchmarks.measure import ROOT, Figure, figures, in_turn
from conformance.core import clauses

REFERENCE = "the whole reference, worlds 1 to 4"
RUN = [sys.executable, "-m", "conformance", "run"]
FUNCTION = [*RUN, "benchmarks.subjects:function"]
#: What each run is asked for, and the same for one clause alone.
RUNS = {
    "one Function, with compile": (FUNCTION, [*FUNCTION, "-k", "test_one_value_for_each_input"]),
    REFERENCE: (RUN, [*RUN, "-k", "test_one_value_for_each_input"]),
}
#: A second `check` in a process: the first has imported what any other needs.
CHECK = "check of one Function, warm"
WARM = """
import time
from benchmarks.subjects import function
from conformance import check
check(function)
began = time.process_time()
check(function)
print(time.process_time() - began)
"""


def measure(rounds: int) -> dict[str, Any]:
    """Seconds of a run with all clauses, processor seconds with all and with one, and how many clauses there are."""
    registry = clauses.registry().values()
    counts = [sum(clause.spec == "Function" for clause in registry), len(registry)]
    found = {}
    for (name, (every, one)), count in zip(RUNS.items(), counts, strict=True):
        runs = in_turn({"all": every, "one": one}, rounds)
        cpu = {which: figure.to_json() for which, figure in figures(runs, "cpu").items()}
        found[name] = {"clauses": count, "seconds": figures(runs)["all"].to_json(), **cpu}
    warm = [
        subprocess.run([sys.executable, "-c", WARM], cwd=ROOT, capture_output=True, text=True, check=True)
        for _ in range(rounds)
    ]
    found[CHECK] = {"cpu": Figure.of([float(run.stdout) for run in warm]).to_json()}
    return found
