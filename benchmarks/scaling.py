"""The part of docs/benchmarks.md on many ranks, and its plot, from docs/data/many-ranks.json."""

from __future__ import annotations

import json
from typing import Any

from benchmarks import plot
from benchmarks.tables import DATA, PLOTS, ROOT, table, where

TEMPLATE = ROOT / "benchmarks" / "scaling.md"


def section() -> str:
    """Fill the template with what was measured."""
    data = json.loads((DATA / "many-ranks.json").read_text(encoding="utf-8"))
    faults = json.loads((DATA / "cluster-faults.json").read_text(encoding="utf-8"))
    parts = {
        "faults": "\n".join(_faults(faults)),
        "ranks": "\n".join(_ranks(data)),
        "post": "\n".join(_post(data)),
        "ranks run": str(data["ranks"][-1]["ranks"]),
        "post run": str(data["post"][-1]["ranks"]),
        **_at_ten_thousand(data["slopes"]),
    }
    text = TEMPLATE.read_text(encoding="utf-8")
    for name, part in parts.items():
        text = text.replace("{{" + name + "}}", part.rstrip() + "\n" * ("\n" in part))
    return text


def _ranks(data: dict[str, Any]) -> list[str]:
    rows, slopes = data["ranks"], data["slopes"]
    cells = [
        (
            str(row["ranks"]),
            f"{row['ready']['least'] * 1000:.0f} ms",
            f"{row['test']['least'] * 1000:.1f} ms ({row['test']['median'] * 1000:.1f})",
            f"{row['messages']:g}",
            f"{row['bytes'] / 1024:.1f} KiB",
            f"{row['shared_mib']:g} MiB",
            f"{row['private_mib']:g} MiB",
        )
        for row in rows
    ]
    head = (
        "ranks", "until the world is ready", "one test, least (median)", "messages", "bytes",
        "memory of a rank", "of that not shared",
    )  # fmt: skip
    sizes = [str(row["ranks"]) for row in rows]
    lines = [
        ("until ready, s", *(f"{row['ready']['least']}" for row in rows)),
        ("one test, s", *(f"{row['test']['least']}" for row in rows)),
    ]
    file = PLOTS / "many-ranks.svg"
    plot.draw(file, sizes, lines, "Seconds against the number of ranks, two cores")
    ready, test = slopes["ready seconds"], slopes["test seconds"]
    said = (
        f"On a straight line through these rows, each further rank adds {ready['each'] * 1000:.0f} ms until the world "
        f"is ready, {test['each'] * 1000:.1f} ms to a test, and {slopes['messages']['each']:g} messages with the "
        "controller.\n"
    )
    picture = plot.picture(file, f"Until a world is ready, and for one test, at {sizes[0]} to {sizes[-1]} ranks.")
    return [table(head, cells), picture, said, where(data["machine"])]


def _faults(data: dict[str, Any]) -> list[str]:
    cells = [
        (
            row["fault"],
            *(f"{row[key]:.1f} s" if row[key] is not None else "-" for key in ("noticed", "going_on")),
            f"{row['usual'] * 1000:.0f} ms",
            ", ".join(f"{count} {outcome}" for outcome, count in row["outcomes"].items()),
        )
        for row in data["rows"]
    ]
    head = ("what happens", "outcome written after", "next test done after", "a test takes", "outcomes of the run")
    return [table(head, cells), where(data["machine"])]


def _post(data: dict[str, Any]) -> list[str]:
    cells = [
        (
            str(row["ranks"]),
            f"{row['test']['least'] * 1000:.1f} ms ({row['test']['median'] * 1000:.1f})",
            f"{row['of_the_first']:g}",
            f"{row['of_each_other']:g}",
        )
        for row in data["post"]
    ]
    head = ("ranks", "order to joined outcome, least (median)", "messages of the first", "of each other")
    slopes = data["slopes"]
    said = (
        f"Each further rank adds {slopes['store seconds']['each'] * 1e6:.0f} µs and "
        f"{slopes['store messages']['each']:.1f} messages to a test.\n"
    )
    return [table(head, cells), said]


def _at_ten_thousand(slopes: dict[str, Any]) -> dict[str, str]:
    def at(name: str) -> float:
        return float(slopes[name]["at_none"] + 10_000 * slopes[name]["each"])

    return {"store messages": f"{at('store messages'):,.0f}", "store seconds": f"{at('store seconds'):.1f}"}
