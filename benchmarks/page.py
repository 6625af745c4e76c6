"""Draws docs/benchmarks.md, and its plots, from the figures as they were measured: ``python -m benchmarks.page``."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

from benchmarks import plot, scaling
from benchmarks.clause_cost import CHECK
from benchmarks.simulated import OURS
from benchmarks.tables import DATA, PLOTS, ROOT, short, table, where

PAGE = ROOT / "docs" / "benchmarks.md"

HEAD = """# How fast it is

`make bench` measures everything on this page, and `python -m benchmarks.page` writes it from `docs/data/bench-*.json`.
The commands that are compared take turns, for several rounds. A figure is the median of the rounds, with the smallest
and the largest in brackets. A ratio is the median of the ratios of each round, so it stays fair if the machine slows
down halfway. No test passes or fails by its time. The measurements are from several days and machines: each goal has
its date, and each section names its machine below its tables.
"""


def main() -> int:
    """Write the page from whatever was measured."""
    parts = [HEAD, *_goals()]
    for name, draw in PARTS.items():
        data = _data(f"bench-{name}")
        parts += [*draw(data["figures"]), where(data["machine"])] if data else [f"## {name.capitalize()}\n\nNot run.\n"]

    PAGE.write_text("\n".join([*parts, scaling.section()]), encoding="utf-8")
    return 0


def _data(name: str) -> Any:
    file = DATA / f"{name}.json"
    return json.loads(file.read_text(encoding="utf-8")) if file.exists() else None


def _goals() -> list[str]:
    """What was to be reached, what was measured, and whether that is enough."""
    from benchmarks.goals import goals

    rows = [(goal.what, goal.wanted, goal.measured, goal.on, goal.verdict) for goal in goals(_data)]
    return ["## Goals\n", table(("what", "goal", "measured", "on", "met"), rows)]


def _figure(figure: dict[str, Any], unit: str = "") -> str:
    middle, least, most = (short(figure[name]) for name in ("median", "least", "most"))
    return f"{middle}{unit}" if least == most else f"{middle}{unit} ({least} to {most})"


def _start(groups: dict[str, Any]) -> list[str]:
    parts = ["## Start\n"]
    for title, group in groups.items():
        rows = [(f"`{name}`", _figure(cell["seconds"], " s"), _figure(cell["ratio"])) for name, cell in group.items()]
        parts.append(table(("command", "seconds", f"ratio {title}"), rows))
    return parts


def _ported(rows: list[dict[str, Any]]) -> list[str]:
    cells = [
        (
            row["harness"] + (" (failed)" if row["failed"] else ""),
            _figure(row["seconds"], " s"),
            _figure(row["cpu"], " s"),
            _figure(row["ratio"]) if row["ratio"] else "",
        )
        for row in rows
    ]
    text = (
        "A [file of twenty tests](guides/test-distributed.md#from-multiprocesstestcase) on two ranks, from start to "
        "end: as it was written for `MultiProcessTestCase`, and after the port to this package.\n"
    )
    return ["## A file of tests, ported\n", text, table(("harness", "seconds", "processor time", "times ours"), cells)]


def _simulated(figures: dict[str, Any]) -> list[str]:
    cells = {(cell["harness"], cell["world"]): cell for cell in figures["gathers"]}
    worlds = [hang["world"] for hang in figures["hangs"]]
    rows = [
        (
            name,
            *(
                f"{_figure(cells[name, world]['cpu_ms'], ' ms')}, {cells[name, world]['ratio']['median']:.2f}"
                for world in worlds
            ),
        )
        for name in dict.fromkeys(cell["harness"] for cell in figures["gathers"])
    ]
    head = [f"{world} ranks" for world in worlds]
    text = (
        "Processor time of one gather of three numbers, forward and backward, on all ranks together, and how many "
        "times that of the same copies and sums in one thread, with nobody to wait for. LocalTensorMode holds the "
        "tensors of all ranks in one, so a Function that asks for its rank is told 0 on all of them.\n"
    )
    hangs = [f"{_figure(hang['ms'], ' ms')}" for hang in figures["hangs"]]
    taken = figures["contract"]
    last = (
        f"The contract of collectives for one gather in worlds of 2, 3, 4 and 8 simulated ranks, without the compiler: "
        f"{_figure(taken[OURS], ' s')} from start to end, of which `import torch` alone takes "
        f"{_figure(taken['import torch'], ' s')}.\n"
    )
    proved = (
        "From the start of a body in which one rank leaves out a barrier until the report has every rank's place:\n"
    )
    return [
        "## Simulated ranks\n",
        text,
        table(("", *head), rows),
        proved,
        table(("", *head), [("proved hang", *hangs)]),
        last,
    ]


def _harness(figures: dict[str, Any]) -> list[str]:
    cells = figures["cells"]
    columns = sorted({(cell["world"], cell["checks"]) for cell in cells})
    harnesses = list(dict.fromkeys(cell["harness"] for cell in cells))
    by_place = {(cell["harness"], cell["world"], cell["checks"]): cell for cell in cells}

    def shown(harness: str, world: int, checks: int) -> str:
        cell = by_place.get((harness, world, checks))
        return "not run" if cell is None else f"{cell['ratio']['median']:.2f}" + (" (failed)" if cell["failed"] else "")

    parts = [
        "## Harnesses\n",
        "The same gather checks in each harness: seconds from start to end, as multiples of `import torch` alone. "
        "A harness that starts processes for every test is not run with many: its cost grows in a straight line.\n",
    ]
    for world in sorted({world for world, _ in columns}):
        counts = [checks for size, checks in columns if size == world]
        rows = [(harness, *(shown(harness, world, checks) for checks in counts)) for harness in harnesses]
        parts.append(table((f"{world} ranks", *(f"{checks:,} check{'s' * (checks > 1)}" for checks in counts)), rows))
    rows = [(cell["harness"], str(cell["world"]), f"{short(cell['cpu_ms'])} ms") for cell in figures["further"]]
    parts += ["Processor time of each further test:\n", table(("harness", "ranks", "processor time"), rows)]
    rows = [
        (cell["harness"], str(cell["world"]), _figure(cell["mib"], " MiB"), _more(cell)) for cell in figures["memory"]
    ]
    parts += [
        "Peak memory of all processes of a harness (proportional set size), shared out over the ranks"
        f"{', measured on ' + figures['memory_date'] if 'memory_date' in figures else ''}:\n",
        table(("harness", "ranks", "memory for each rank", "of a further rank"), rows),
    ]
    return parts


def _more(cell: dict[str, Any]) -> str:
    return f"{short(cell['further'])} MiB" if "further" in cell else ""


def _gathers(rows: list[dict[str, Any]]) -> list[str]:
    parts = [
        "## Gathers\n",
        "Forward and backward of one gather, on Gloo: time on the slowest rank as a share of what the ksuit form "
        "takes, round by round. The bare exchanges move the same data and do nothing else, so they are the limit. The "
        "reference also checks, with one exchange of 4 KiB, that all ranks bring the same shape and dtype; no other "
        "form does. The second table of each size says by how much a rank's process grows during a call, results "
        "included.\n",
    ]
    for world in sorted({row["world"] for row in rows}):
        own = [row for row in rows if row["world"] == world]
        sizes = list(dict.fromkeys(row["size"] for row in own))
        by_place = {(row["form"], row["size"]): row for row in own}
        lines = [
            (form, *(f"{by_place[form, size]['share']:.2f}" for size in sizes))
            for form in dict.fromkeys(row["form"] for row in own)
        ]
        peaks = [
            (form, *(short(by_place[form, size].get("peak_mib", 0)) for size in sizes))
            for form in dict.fromkeys(row["form"] for row in own)
        ]
        base = [f"{by_place['ksuit form', size]['milliseconds']:,.4g} ms" for size in sizes]
        parts.append(table((f"{world} ranks", *sizes), [*lines, ("(the ksuit form takes)", *base)]))
        parts.append(table((f"{world} ranks: growth at the peak, MiB", *sizes), peaks))
        file = PLOTS / f"bench-gathers-{world}.svg"
        plot.draw(file, sizes, lines, f"{world} ranks: share of the ksuit form's time")
        parts.append(plot.picture(file, "Lower is faster. Columns are the size of each rank's tensor."))
    return parts


def _watch(figures: dict[str, Any]) -> list[str]:
    rows = [(f"`{spec}`", _figure(figure, " s")) for spec, figure in figures.items()]
    text = "From saving a file until `conformance watch` has run every test of the spec again, on one rank and two.\n"
    return ["## Watch\n", text, table(("spec", "seconds"), rows)]


def _docs(figures: dict[str, Any]) -> list[str]:
    rows = [
        (clauses, name, _figure(cell["wall"], " s"), _figure(cell["cpu"], " s"))
        for clauses, kinds in figures.items()
        for name, cell in kinds.items()
    ]
    text = "The whole site, built by `make docs`: as it is, and with every clause repeated under nine other ids.\n"
    return ["## Docs\n", text, table(("clauses", "build", "seconds", "processor time"), rows)]


def _growth(ladders: dict[str, Any]) -> list[str]:
    parts = ["## Growth\n", "Seconds from start to end.\n"]
    for name, steps in ladders.items():
        parts.append(table((name, "seconds"), [(step, _figure(figure, " s")) for step, figure in steps.items()]))
    return parts


def _clauses(figures: dict[str, Any]) -> list[str]:
    rows = []
    matrix, docs, day = _data("kill-matrix"), _data("bench-docs"), _data("bench-clauses")["machine"]["date"]
    warm = figures.pop(CHECK, None)
    for name, cell in figures.items():
        more = (cell["all"]["median"] - cell["one"]["median"]) / (cell["clauses"] - 1)
        cpu = f"{short(cell['all']['median'])} s"
        rows.append((name, str(cell["clauses"]), _figure(cell["seconds"], " s"), cpu, f"{short(1000 * more)} ms", day))
    rows.append((*_cost_in_proof(matrix), matrix["machine"]["date"]))
    rows.append((*_cost_in_docs(docs["figures"]), docs["machine"]["date"]))
    text = "Wall time and processor time of all clauses, and the average processor time of one more.\n"
    head = ("of", "clauses", "all", "processor time", "one more", "on")
    parts = ["## What one more clause costs\n", text, table(head, rows)]
    return [*parts, f"{CHECK}: {_figure(warm['cpu'], ' s')} of processor time.\n"] if warm else parts


def _cost_in_proof(matrix: dict[str, Any]) -> tuple[str, ...]:
    count, seconds = matrix["clauses"], matrix["processor_seconds"]
    what = f"the kill matrix, {len(matrix['rows'])} implementations"
    clock = f"{short(matrix['seconds'])} s" if "seconds" in matrix else ""
    return what, str(count), clock, f"{short(seconds)} s", f"{short(seconds / count)} s"


def _cost_in_docs(figures: dict[str, Any]) -> tuple[str, ...]:
    (few, one), (many, ten) = ((int(count), kinds["the first"]) for count, kinds in figures.items())
    return (
        "the site, built for the first time",
        str(few),
        _figure(one["wall"], " s"),
        f"{short(one['cpu']['median'])} s",
        f"{short(1000 * (ten['cpu']['median'] - one['cpu']['median']) / (many - few))} ms",
    )


def _leaks(rows: list[dict[str, int]]) -> list[str]:
    names = [name for name in rows[0] if name != "tests"]
    cells = [
        (
            f"{row['tests']:,}",
            *(f"{row[name] / (1 << 20):.0f} MiB" if "memory" in name else str(row[name]) for name in names),
        )
        for row in rows
    ]
    text = "What a run uses after each number of tests on two ranks; every hundredth test kills a rank.\n"
    return ["## A long run\n", text, table(("tests", *names), cells)]


PARTS: dict[str, Callable[[Any], list[str]]] = {
    "start": _start,
    "harness": _harness,
    "ported": _ported,
    "simulated": _simulated,
    "gathers": _gathers,
    "growth": _growth,
    "clauses": _clauses,
    "leaks": _leaks,
    "watch": _watch,
    "docs": _docs,
}

if __name__ == "__main__":
    sys.exit(main())
