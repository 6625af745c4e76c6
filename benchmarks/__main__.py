"""``python -m benchmarks [PART ...]``: measure, and write docs/data/bench-PART.json, which the page is made from."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import clause_cost, docs_build, growth, harness, leaks, ported, simulated, start, watching
from benchmarks.measure import ROOT, machine
from benchmarks.place import Place

DATA = ROOT / "docs" / "data"


def main() -> int:
    """Measure the parts that are asked for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "parts",
        nargs="*",
        help="start, harness, ported, simulated, gathers, growth, clauses, leaks, watch, docs (default: all)",
    )
    parser.add_argument("--rounds", type=int, default=5, help="counted runs of each command")
    parser.add_argument("--worlds", default="2,4,8", help="numbers of ranks")
    parser.add_argument("--device", default="cpu", help="where the gathers compute; the other parts know the CPU alone")
    parser.add_argument("--sizes", default="", help="sizes of the gathers, such as '1 KiB,1 MiB' (default: all)")
    parser.add_argument("--into", type=Path, default=DATA, help="where the figures go (default: docs/data)")
    arguments = parser.parse_args()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # users keep what Python compiles, unless told otherwise
    worlds = tuple(int(size) for size in arguments.worlds.split(","))

    def gathers() -> Any:
        from benchmarks.gathers import SIZES, measure

        sizes = arguments.sizes.split(",") if arguments.sizes else list(SIZES)
        return measure(worlds, Place.of(arguments.device), sizes)

    parts: dict[str, Callable[[], Any]] = {
        "start": lambda: start.measure(arguments.rounds),
        "harness": lambda: harness.measure(arguments.rounds, worlds, (1, 20, 100, 1000)),
        "ported": lambda: ported.measure(min(arguments.rounds, 3)),
        "simulated": lambda: simulated.measure(min(arguments.rounds, 3)),
        "gathers": gathers,
        "growth": lambda: growth.measure(min(arguments.rounds, 3)),
        "clauses": lambda: clause_cost.measure(min(arguments.rounds, 3)),
        "leaks": leaks.measure,
        "watch": lambda: watching.measure(arguments.rounds),
        "docs": lambda: docs_build.measure(min(arguments.rounds, 3)),
    }
    for name in arguments.parts or parts:
        print(f"measuring {name}", flush=True)
        data = {"machine": machine(), "figures": parts[name]()}
        if name == "gathers" and (note := Place.of(arguments.device).sharing(worlds)):
            data["note"] = note
        arguments.into.mkdir(parents=True, exist_ok=True)
        device = "" if arguments.device == "cpu" else f"-{arguments.device}"
        file = arguments.into / f"bench-{name}{device}.json"
        file.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
