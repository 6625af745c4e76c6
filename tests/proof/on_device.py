"""What the planted bugs and right classes of the CPU are found to be on a device, and where that was."""

from __future__ import annotations

import datetime
from collections.abc import Sequence

import torch

from tests.proof.matrix import Row


def run_on(device: str) -> str:
    """The first words of a page: the day, the release of PyTorch and the device."""
    where = "one thread" if device == "cpu" else torch.cuda.get_device_name() if device == "cuda" else device
    return f"Run on {datetime.date.today()} with PyTorch {torch.__version__}, {where}."


def page(rows: Sequence[Row], wanted: int, device: str) -> str:
    """The table of the site: the right classes that are accused there, and the bugs that are not noticed."""
    bugs = [row for row in rows if row.implementation.breaks]
    good = [row for row in rows if not row.implementation.breaks]
    accused, missed = [row for row in good if row.also], [row for row in bugs if not row.caught]
    lines = [
        f"{run_on(device)} {len(rows)} of {wanted} classes were asked: {len(good)} right ones, of which {len(accused)} "
        f"were accused, and {len(bugs)} planted bugs, of which {len(bugs) - len(missed)} were caught.",
    ]
    if accused or missed:
        lines += ["", "| class | found | message |", "|---|---|---|"]
    lines += [_line(row, f"accused of {clause}", row.broken[clause]) for row in accused for clause in row.also]
    lines += [_line(row, f"{row.implementation.breaks} not noticed", "") for row in missed]
    return "\n".join(lines) + "\n"


def _line(row: Row, found: str, message: str) -> str:
    escaped = message.replace("|", "\\|")
    return f"| `{row.implementation.reference}` | {found} | {escaped} |"
