"""Draws docs/benchmarks.md, and its plots, from the figures as they were measured: ``python -m benchmarks.page``."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
DATA = ROOT / "docs" / "data"
PAGE = ROOT / "docs" / "benchmarks.md"
PLOTS = ROOT / "docs" / "_static"

HEAD = """# How fast it is

Written by `python -m benchmarks.page` from `docs/data/bench-*.json`; `make bench` measures again. Commands are run
in turn, several times; figures are medians, with the smallest and largest in brackets. A ratio is the median of the
ratios of each round, so a machine whose speed drifts favours nobody. No timing decides whether a test passes.
"""


def main() -> int:
    """Write the page from whatever was measured."""
    parts = [HEAD, *_goals()]
    for name, draw in PARTS.items():
        data = _data(f"bench-{name}")
        parts += (
            [*draw(data["figures"]), _where(data["machine"])] if data else [f"## {name.capitalize()}\n\nNot run.\n"]
        )
    PAGE.write_text("\n".join(parts), encoding="utf-8")
    return 0


def _data(name: str) -> Any:
    file = DATA / f"{name}.json"
    return json.loads(file.read_text(encoding="utf-8")) if file.exists() else None


def _goals() -> list[str]:
    """What was to be reached, what was measured, and whether that is enough."""
    from benchmarks.goals import goals

    rows = [(goal.what, goal.wanted, goal.measured, goal.verdict) for goal in goals(_data)]
    return ["## Goals\n", _table(("what", "goal", "measured", "met"), rows)]


def _where(machine: dict[str, str]) -> str:
    return (
        f"Measured on {machine['date']}: {machine['processor']}, {machine['system']}, Python {machine['python']}, "
        f"torch {machine['torch']}, load at the start {machine['load']}.\n"
    )


def _figure(figure: dict[str, Any], unit: str = "") -> str:
    return f"{figure['median']:.3g}{unit} ({figure['least']:.3g} to {figure['most']:.3g})"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows), ""])


def _start(groups: dict[str, Any]) -> list[str]:
    parts = ["## Start\n"]
    for title, group in groups.items():
        rows = [(f"`{name}`", _figure(cell["seconds"], " s"), _figure(cell["ratio"])) for name, cell in group.items()]
        parts.append(_table(("command", "seconds", f"ratio {title}"), rows))
    return parts


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
        "The same gather checks; seconds from start to end as multiples of `import torch` alone. Harnesses that start "
        "processes for every test are not run with many checks: their cost is a straight line.\n",
    ]
    for world in sorted({world for world, _ in columns}):
        counts = [checks for size, checks in columns if size == world]
        rows = [(harness, *(shown(harness, world, checks) for checks in counts)) for harness in harnesses]
        parts.append(_table((f"{world} ranks", *(f"{checks} checks" for checks in counts)), rows))
    rows = [(cell["harness"], str(cell["world"]), f"{cell['cpu_ms']:.3g} ms") for cell in figures["further"]]
    parts += ["Processor time of each further test:\n", _table(("harness", "ranks", "processor time"), rows)]
    rows = [
        (cell["harness"], str(cell["world"]), _figure(cell["mib"], " MiB"), _more(cell)) for cell in figures["memory"]
    ]
    parts += [
        "Peak memory of all processes of a harness (proportional set size), shared out over the ranks:\n",
        _table(("harness", "ranks", "memory for each rank", "of a further rank"), rows),
    ]
    return parts


def _more(cell: dict[str, Any]) -> str:
    return f"{cell['further']:.3g} MiB" if "further" in cell else ""


def _gathers(rows: list[dict[str, Any]]) -> list[str]:
    parts = [
        "## Gathers\n",
        "Forward and backward of one gather, on Gloo; time on the slowest rank as a share of the ksuit form's, round "
        "by round. The bare exchanges move the same data and do no more: they are the limit. The reference also makes "
        "sure, with one exchange of 4 KiB, that all ranks bring the same shape and dtype; no other form does. The "
        "second table says by how much a rank's process grows during a call, results included.\n",
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
            (form, *(f"{by_place[form, size].get('peak_mib', 0):.3g}" for size in sizes))
            for form in dict.fromkeys(row["form"] for row in own)
        ]
        base = [f"{by_place['ksuit form', size]['milliseconds']:,.4g} ms" for size in sizes]
        parts.append(_table((f"{world} ranks", *sizes), [*lines, ("(the ksuit form takes)", *base)]))
        parts.append(_table((f"{world} ranks: growth at the peak, MiB", *sizes), peaks))
        _plot(PLOTS / f"bench-gathers-{world}.svg", sizes, lines, f"{world} ranks: share of the ksuit form's time")
        parts.append(f"![Share of the ksuit form's time at {world} ranks](_static/bench-gathers-{world}.svg)\n")
    return parts


def _watch(figures: dict[str, Any]) -> list[str]:
    rows = [(f"`{spec}`", _figure(figure, " s")) for spec, figure in figures.items()]
    text = "From saving a file to the end of the round, every test of the spec at one and two ranks.\n"
    return ["## Watch\n", text, _table(("spec", "seconds"), rows)]


def _docs(figures: dict[str, Any]) -> list[str]:
    rows = [
        (clauses, name, _figure(cell["wall"], " s"), _figure(cell["cpu"], " s"))
        for clauses, kinds in figures.items()
        for name, cell in kinds.items()
    ]
    text = "The whole site, as `make docs` builds it. The tenfold repeats every clause under nine other ids.\n"
    return ["## Docs\n", text, _table(("clauses", "build", "seconds", "processor time"), rows)]


def _growth(ladders: dict[str, Any]) -> list[str]:
    parts = ["## Growth\n", "Seconds from start to end.\n"]
    for name, steps in ladders.items():
        parts.append(_table((name, "seconds"), [(step, _figure(figure, " s")) for step, figure in steps.items()]))
    return parts


def _leaks(rows: list[dict[str, int]]) -> list[str]:
    names = [name for name in rows[0] if name != "tests"]
    cells = [
        (
            f"{row['tests']:,}",
            *(f"{row[name] / (1 << 20):.0f} MiB" if "memory" in name else str(row[name]) for name in names),
        )
        for row in rows
    ]
    text = "What is held after so many tests at two ranks in one run; every hundredth kills a rank.\n"
    return ["## A long run\n", text, _table(("tests", *names), cells)]


PARTS: dict[str, Callable[[Any], list[str]]] = {
    "start": _start,
    "harness": _harness,
    "gathers": _gathers,
    "growth": _growth,
    "leaks": _leaks,
    "watch": _watch,
    "docs": _docs,
}
COLOURS = ("#3b76b8", "#c4652a", "#3a8f5b", "#8b5fb0", "#b23b52", "#7a7a7a", "#a08a2a")


def _ticks(most: float) -> list[float]:
    """Where the lines of a scale stand: a few round numbers up to its end."""
    step = next(step for step in (0.5, 1, 2, 5, 10, 20, 50, 100) if most / step <= 5)
    return [place * step for place in range(int(most / step) + 1)]


def _plot(file: Path, sizes: Sequence[str], lines: Sequence[Sequence[str]], title: str) -> None:
    """A line for each form. Colours and grey text are chosen to be read on white and on black alike."""
    width, height, left, top = 640, 300, 50, 30
    shares = [[float(value) for value in line[1:]] for line in lines]
    most = max(1.2, *(max(line) for line in shares))
    step = (width - left - 200) / max(1, len(sizes) - 1)

    def at(place: int, share: float) -> str:
        return f"{left + place * step:.0f},{top + (height - top - 40) * (1 - share / most):.0f}"

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" font-family="sans-serif" '
        f'font-size="11" fill="#808080"><title>{title}</title><text x="{left}" y="16" font-size="13">{title}</text>'
    ]
    for share in _ticks(most):
        x, y = at(0, share).split(",")
        end = left + step * (len(sizes) - 1)
        parts.append(f'<line x1="{x}" x2="{end:.0f}" y1="{y}" y2="{y}" stroke="#808080" stroke-opacity=".4"/>')
        parts.append(f'<text x="{left - 8}" y="{int(y) + 4}" text-anchor="end">{share:g}</text>')
    for place, size in enumerate(sizes):
        parts.append(f'<text x="{left + place * step:.0f}" y="{height - 18}" text-anchor="middle">{size}</text>')
    for number, (line, values) in enumerate(zip(lines, shares, strict=True)):
        colour = COLOURS[number % len(COLOURS)]
        points = " ".join(at(place, share) for place, share in enumerate(values))
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts.append(f'<text x="{width - 185}" y="{top + 18 * number + 10}" fill="{colour}">{line[0]}</text>')
    file.write_text("\n".join([*parts, "</svg>", ""]), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
