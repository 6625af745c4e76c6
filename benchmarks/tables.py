"""Tables of the page of benchmarks, and where its data and pictures are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
DATA = ROOT / "docs" / "data"
PLOTS = ROOT / "docs" / "_static"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows), ""])


def where(machine: dict[str, str]) -> str:
    """Say when, where and of which commit something was measured."""
    return (
        f"Measured on {machine['date']}, suite {machine['commit']}: {machine['processor']}, {machine['system']}, "
        f"Python {machine['python']}, torch {machine['torch']}, load at the start {machine['load']}.\n"
    )


def short(number: float) -> str:
    """Write three digits, if they are enough, and no powers of ten: 0.0974, 12.6, 3,310."""
    return f"{number:,.0f}" if abs(number) >= 1000 else f"{number:.3g}"
