"""The tables of faults in docs/how-it-works.md, from what was measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

HERE = "<!-- made by python -m benchmarks.faults; what follows is overwritten -->"
#: A rank that hangs is given this long (seconds).
DEADLINE = 3.0
#: The harnesses of PyTorch, and our scripts that put them through the faults.
PEERS = {
    "MultiProcessTestCase": "fault_multi_process.py",
    "MultiProcContinuousTest": "fault_continuous.py",
    "torch.multiprocessing.spawn": "fault_spawned.py",
}
#: What the peers are put through at two ranks: a fault of each kind. ``end`` is after the last collective.
COMPARED = (
    "end_killed", "end_exit_1", "backward_killed", "backward_lone_error", "backward_endless_loop",
    "backward_other_shape", "backward_environment",
)  # fmt: skip
#: A rank that hangs is given this long in the comparison with peers, here and there (seconds).
PEER_DEADLINE = 45.0
#: A peer that has not ended by itself after this time is ended (seconds).
PEER_LIMIT = 150.0


def tables(data: Mapping[str, Any]) -> str:
    """The page's tables."""
    lines = [HERE, "", _where(data["machine"])]
    lines += ["", *summary(data["ours"]), "", "### Every fault", ""]
    lines += [f"A rank that hangs was given {DEADLINE:g} seconds.", "", *ours_table(data["ours"])]
    lines += ["", "### The same faults in PyTorch's harnesses", ""]
    lines += [
        "Each harness runs three tests. The second has the fault; `next` is the outcome of the third. Every harness",
        f"that has a deadline, this suite included, was given {PEER_DEADLINE:.0f} seconds. The column of this suite is",
        "from reports of whole runs, and includes the start of the ranks. What had not ended by itself after",
        f"{PEER_LIMIT:.0f} seconds was ended. `end` is after the last collective, when rank 0 no longer needs rank 1.",
    ]
    lines += [""]
    apart = data["peers_machine"] != data["machine"]
    lines += ["The other harnesses were measured in another run. " + _where(data["peers_machine"]), ""] if apart else []
    return "\n".join([*lines, *peer_table(data)]) + "\n"


def _where(made: Mapping[str, str]) -> str:
    return f"Measured on {made['date']}: {made['processor']}, torch {made['torch']}, load {made['load']}."


def summary(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """What the table adds up to."""
    lost = sum(len(row["lost"]) for row in rows)
    sizes = sorted({row["ranks"] for row in rows})
    faults = f"{len(rows) // len(sizes)} faults, each at {' and at '.join(map(str, sizes))} ranks"
    lines = [f"{faults}; they changed {lost or 'no'} outcome{'s' * (lost != 1)} of other tests.", ""]
    for size in sizes:
        took = [row["recovery"] for row in rows if row["ranks"] == size and row["recovery"] is not None]
        if took:
            middle = f"- {size} ranks: a new world is ready {median(took):.2f} s after a fault"
            spread = f"smallest {min(took):.2f}, largest {max(took):.2f}"
            lines.append(f"{middle} (median of the {len(took)} that made one necessary, {spread}).")
    return lines


def ours_table(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """One line for each fault and place."""
    head = "| fault | where | verdict | seconds to notice | seconds to recover | what else was lost |"
    lines = [head, "|---|---|---|---|---|---|"]
    for fault in dict.fromkeys(row["fault"] for row in rows):
        for place in dict.fromkeys(row["place"] for row in rows if row["fault"] == fault):
            own = [row for row in rows if (row["fault"], row["place"]) == (fault, place)]
            changed = sorted({name for row in own for name in row["changed"]})
            verdict = " / ".join(dict.fromkeys(row["verdict"] for row in own))
            verdict += f" (changed: {', '.join(changed)})" if changed else ""
            seconds = " / ".join(_noticed(row) for row in own)
            recovery = " / ".join("same world" if row["recovery"] is None else f"{row['recovery']:.2f}" for row in own)
            lost = sorted({word for row in own for word in row["lost"]})
            lines.append(
                f"| `{fault}` | {place} | {verdict} | {seconds} | {recovery} | {', '.join(lost) or 'nothing'} |"
            )
    return lines


def _noticed(row: Mapping[str, Any]) -> str:
    return f"+{max(0.0, row['seconds'] - DEADLINE):.2f}" if row["late"] else f"{row['seconds']:.2f}"


def peer_table(data: Mapping[str, Any]) -> list[str]:
    """One line for each fault that the peers were put through: what is said of the fault, and of the test after it."""
    lines = [f"| fault, on rank 1 of 2 | this suite | {' | '.join(PEERS)} |"]
    lines.append("|---" * (len(PEERS) + 2) + "|")
    ours = data.get("ours_compared", {})
    for fault in COMPARED:
        cells = [_our_cell(ours[fault]) if fault in ours else "not run"]
        cells += [peer_cell(data["peers"].get(name, {}).get(fault)) for name in PEERS]
        lines.append(f"| `{fault}` | {' | '.join(cells)} |")
    return lines


def _our_cell(row: Mapping[str, Any]) -> str:
    return f"{row['verdict']} in {row['seconds']:.1f} s; next: {row['after']}"


def peer_cell(found: Mapping[str, Any] | None) -> str:
    """What a peer made of a fault, and of the test after it."""
    if found is None:
        return "not run"
    fault, after = found["test_2_fault"], found["test_3_after"]
    if found["test_1_before"]["outcome"] != "pass":
        return "no figure: on this busy machine its test before the fault failed too"
    took = f" in {fault['seconds']:.1f} s" if fault["seconds"] is not None else ""
    text = f"{fault['outcome']}{took}; next: {after['outcome']}"
    return text + (f"; ended from outside after {found['seconds']:.0f} s" if not found["ended"] else "")
