"""The goals for speed and memory, each held against what was measured last."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from benchmarks.clause_cost import CHECK
from benchmarks.clause_cost import REFERENCE as WHOLE_REFERENCE
from benchmarks.simulated import OURS
from benchmarks.start import WHOLE
from benchmarks.tables import short

Data = Callable[[str], Any]
KSUIT, LIMIT = "ksuit form", "bare: two all-to-all"
REFERENCE = "reference"
PEERS = ("torch.distributed.nn", "all_gather_tensor_autograd")
#: What a whole run of one subject may take (seconds).
BEYOND = {
    "a Function": 8,
    "a Function, not compiled": 1.5,
    "a collective, 1 to 3 ranks": 6,
    "a published gather, 1 to 3 ranks": 5,
}
#: Why a goal is not met, if that is known.
WHY = {
    "watch": "every clause is run again, on ranks that are forked anew",
    "reference": "most of its tests need several ranks or a process group, and all ranks share the cores",
    "proof": "each implementation meets every clause of its spec, on one, two and three ranks where it gathers",
    "middle": "checking that shapes match, and waking threads, take a larger share of the time than at 64 MiB",
    "limit": "a gather also checks shapes, builds autograd's graph and adds up; the bare exchange does none of that",
    "switches": "a switch exchanges random numbers, groups and settings; above the backend PyTorch's own calls run",
    "differences": "every element is moved on every rank, so calls grow with the square of the number of ranks",
    "small": "a small gather is all latency, and checking that shapes match is one exchange more",
    "start": "this includes the checks themselves, and importing torch.func, which takes as long as importing torch",
    "whole": "this includes the checks themselves in three worlds, and compiling it on one rank and on two",
}


@dataclass(frozen=True)
class Goal:
    """One line of the table."""

    what: str
    wanted: str
    measured: str
    met: bool | None
    why: str = ""
    #: The day on which it was measured: not all figures are of one.
    on: str = ""

    @property
    def verdict(self) -> str:
        """As the page says it."""
        if self.met is None:
            return "not run"
        return "yes" if self.met else f"no: {self.why}" if self.why else "no"


def goals(data: Data) -> Iterator[Goal]:
    """Every goal, from the data files by name."""
    parts: dict[str, Callable[[Any], Iterator[Goal]]] = {
        "bench-start": _start,
        "bench-harness": _harness,
        "faults": _faults,
        "bench-clauses": _clauses,
        "kill-matrix": _proof,
        "bench-watch": _watch,
        "bench-simulated": _simulated,
        "bench-gathers": _gathers,
        "bench-docs": _docs,
    }
    for name, part in parts.items():
        found = data(name)
        yield from (replace(goal, on=found["machine"]["date"]) for goal in part(found))


def _at_most(what: str, value: float, most: float, unit: str, why: str = "", suffix: str = "") -> Goal:
    return Goal(what, f"at most {most:g}{unit}", f"{short(value)}{unit}{suffix}", value <= most, why)


def _start(data: Any) -> Iterator[Goal]:
    if not data:
        return
    light = data["figures"]["against python -c pass"]
    for name in ("conformance list", "conformance explain"):
        yield _at_most(f"`{name}`", light[name]["seconds"]["median"], 0.2, " s")
    heavy = data["figures"]["against import torch"]
    ratio = heavy["conformance run, one spec"]["ratio"]["median"]
    what = "`conformance run`, one subject and spec, 2 ranks, against `import torch`"
    yield Goal(what, "at most 1.5, plus the checks", f"{ratio:.2f}, checks included", ratio <= 1.5, WHY["start"])
    whole = data["figures"].get(WHOLE, {})
    for name, most in BEYOND.items():
        if name in whole:
            beyond = whole[name]["seconds"]["median"] - whole["import torch"]["seconds"]["median"]
            why = WHY["start" if name.startswith("a Function") else "whole"]
            yield _at_most(f"{name}: all its clauses, beyond `import torch`", beyond, most, " s", why)


def _harness(data: Any) -> Iterator[Goal]:
    if not data:
        return
    figures = data["figures"]
    ratio = {(cell["harness"], cell["world"], cell["checks"]): cell["ratio"]["median"] for cell in figures["cells"]}
    seconds = {(cell["harness"], cell["world"], cell["checks"]): cell["seconds"]["median"] for cell in figures["cells"]}
    for checks, most in ((1, 1.3), (20, 1.4), (100, 1.8)):
        what = f"{checks} two-rank gather test{'s' * (checks > 1)}, start included, against `import torch`"
        yield _at_most(what, ratio["this suite", 2, checks], most, "")
    threads = "MultiThreadedTestCase (no isolation)"
    for checks in (1, 20, 100, 1000):
        if (threads, 2, checks) in ratio:
            share = ratio["this suite", 2, checks] / ratio[threads, 2, checks]
            yield Goal(
                f"{checks:,} of them, against MultiThreadedTestCase", "faster", f"{share:.0%} of its time", share < 1
            )
    if ("this suite", 2, 1000) in seconds:
        more = seconds["this suite", 2, 1000] - seconds["this suite", 2, 1]
        yield _at_most("1,000 tests at 2 ranks, after the start", more, 6, " s")
    further = {cell["harness"]: cell["cpu_ms"] for cell in figures["further"] if cell["world"] == 2}
    times = further["MultiProcessTestCase"] / further["this suite"]
    what = "each further two-rank test against MultiProcessTestCase, processor time"
    yield Goal(what, "1,000 times cheaper", f"{times:,.0f} times", times >= 1000)
    for cell in figures["memory"]:
        if cell["harness"] == "this suite" and cell["world"] == 4 and "further" in cell:
            yield _at_most("memory of each further rank, at 4 ranks", cell["further"], 45, " MiB")


def _faults(data: Any) -> Iterator[Goal]:
    if not data:
        return
    from statistics import median

    why = f"measured at load {data['machine']['load'].split()[0]} on {data['machine']['processor']}"
    for ranks, most in ((2, 0.15), (4, 0.3)):
        found = [row["recovery"] for row in data["ours"] if row["ranks"] == ranks and row["recovery"] is not None]
        what = f"from a fault on one rank to the next good test, {ranks} ranks (median of {len(found)} faults)"
        yield _at_most(what, median(found), most, " s", why)


def _clauses(data: Any) -> Iterator[Goal]:
    if data:
        seconds = data["figures"][WHOLE_REFERENCE]["seconds"]["median"]
        yield _at_most("the whole reference run, worlds 1 to 4", seconds, 12, " s", WHY["reference"])
        if CHECK in data["figures"]:
            yield _at_most(f"{CHECK}, processor time", data["figures"][CHECK]["cpu"]["median"], 0.5, " s")


def _proof(data: Any) -> Iterator[Goal]:
    what = f"the kill matrix, {len(data['rows'])} implementations"
    if "seconds" in data:
        yield _at_most(what, data["seconds"], 300, " s", WHY["proof"])


def _watch(data: Any) -> Iterator[Goal]:
    for spec, figure in (data["figures"] if data else {}).items():
        most = 0.2 if spec == "GradFactor" else 0.5
        yield _at_most(
            f"`watch`: from a save to the verdict, {spec}, 2 ranks", figure["median"], most, " s", WHY["watch"]
        )


def _simulated(data: Any) -> Iterator[Goal]:
    if not data:
        return
    cells = [cell for cell in data["figures"]["gathers"] if cell["harness"] == OURS]
    for cell in cells:
        what = f"a gather on {cell['world']} simulated ranks, processor time against the same arithmetic alone"
        yield _at_most(what, cell["ratio"]["median"], 1.7, " times", WHY["switches"])
    for hang in data["figures"]["hangs"]:
        yield _at_most(f"a hang of {hang['world']} simulated ranks, proved", hang["ms"]["median"], 10, " ms")
    what = "the contract of collectives, one gather on 2, 3, 4 and 8 simulated ranks, not compiled"
    yield _at_most(what, data["figures"]["contract"][OURS]["median"], 3, " s", WHY["differences"])


def _gathers(data: Any) -> Iterator[Goal]:
    if not data:
        return
    rows = {(row["world"], row["size"], row["form"]): row for row in data["figures"]}
    for size in ("1 MiB", "64 MiB"):
        if (4, size, REFERENCE) not in rows:
            continue
        own, ksuit = rows[4, size, REFERENCE], rows[4, size, KSUIT]
        what = f"reference gather, {size}, 4 ranks, against the ksuit form"
        yield _at_most(what, own["share"], 0.6, "", WHY["middle"])
        what = f"peak memory of that gather, {size}, against the ksuit form"
        peak, most = own["peak_mib"], ksuit["peak_mib"]
        yield Goal(what, "no more", f"{peak:.3g} against {most:.3g} MiB", peak <= most)
        peer = min(rows[4, size, form]["share"] for form in PEERS)
        what = f"reference gather, {size}, 4 ranks, against the fastest peer"
        yield Goal(what, "faster", f"{own['share'] / peer:.0%} of its time", own["share"] < peer)
        limit = rows[4, size, LIMIT]["share"]
        what = f"reference gather, {size}, 4 ranks, against two bare all-to-all calls"
        yield _at_most(what, own["share"] / limit, 1.5, "", WHY["limit"])
    for world in (2, 4):
        if (world, "1 KiB", REFERENCE) in rows:
            share = rows[world, "1 KiB", REFERENCE]["share"]
            what = f"small gather, 1 KiB, {world} ranks, against the ksuit form"
            yield Goal(what, "no slower", f"{share:.0%} of its time", share <= 1, WHY["small"])


def _docs(data: Any) -> Iterator[Goal]:
    if not data:
        return
    kinds = next(iter(data["figures"].values()))
    times = kinds["the first"]["wall"]["median"] / kinds["nothing changed"]["wall"]["median"]
    yield Goal(
        "the site built again with nothing changed, against the first build",
        "5 times faster",
        f"{times:.1f} times",
        times >= 5,
    )
