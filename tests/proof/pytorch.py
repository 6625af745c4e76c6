"""PyTorch's own operators as Functions: none may be accused without a written reason, and wrong ones must be.

Each operator of OpInfo is judged with one of its samples by ``check``, in a process of its own. If its gradient passes,
mutants of it are judged too.
"""

from __future__ import annotations

import time
import tomllib
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.testing._internal.common_methods_invocations import op_db

from conformance import ConformanceError, check
from conformance.report.model import ClauseResult, SubjectResult
from tests.proof.isolated import isolated
from tests.proof.wrapped import Operator, Unasked, Wrong, function_of, mutants, name_of

GRADIENT = "Function.backward.gradient"
DTYPES = ("float64", "complex128")
#: One in so many is a quick sample.
QUICKLY = 14
#: What a person has found out about each accusation, each process that died, and each mutant that was missed.
REASONS = Path(__file__).parent / "pytorch.toml"
CAUGHT, BAR = "caught", "\\|"
Row = dict[str, Any]


@dataclass(frozen=True)
class Entry:
    """An operator of OpInfo, in one dtype."""

    info: Any
    dtype: str

    @property
    def reference(self) -> str:
        """Its name in the data."""
        return f"{name_of(self.info)} in {self.dtype}"


def entries(dtypes: Sequence[str] = DTYPES) -> list[Entry]:
    """All that are differentiable."""
    there = [Entry(info, dtype) for dtype in dtypes for info in op_db if info.supports_autograd]
    return [entry for entry in there if getattr(torch, entry.dtype) in entry.info.supported_dtypes("cpu")]


def judge(entry: Entry, wrong: Wrong | None = None) -> Row:
    """Judge an operator, and mutants of it if its gradient passes; ``found`` has what it is accused of."""
    row = _row(entry)
    try:
        operator = Operator.of(entry.info, getattr(torch, entry.dtype))
    except Unasked as why:
        return {**row, "verdict": "not asked", "said": str(why)}
    start = time.process_time()
    result = _checked(operator, wrong)
    row |= {"verdict": result.verdict, "found": _found(result)}
    if result.clause(GRADIENT).verdict == "pass":
        row["mutants"] = {name: _fate(operator, mutant) for name, mutant in mutants(operator).items()}
    return {**row, "seconds": round(time.process_time() - start, 1)}


def _row(entry: Entry) -> Row:
    return {"implementation": entry.reference, "operator": name_of(entry.info), "dtype": entry.dtype}


def _checked(operator: Operator, wrong: Wrong | None, only: str | None = None) -> SubjectResult:
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            report = check(function_of(operator, wrong), operator.args, only=only, compile=False)
        except ConformanceError as error:
            report = error.report
    return report.subjects[0]


def _found(result: SubjectResult) -> dict[str, str]:
    """What an operator is accused of, by clause, and which clauses are not judged."""
    broken = {one.id: _said(one) for one in result.clauses if one.affects_verdict}
    return broken | {f"not judged: {one.id}": _said(one) for one in result.clauses if one.verdict == "skipped"}


def _said(clause: ClauseResult) -> str:
    """The first test that did not pass, and its first words."""
    test = next((test for test in clause.tests if test.outcome not in {"pass", "not-applicable"}), None)
    name = test.nodeid.split("::")[-1].partition("[")[0] if test else clause.verdict
    told = (test.message or test.reason) if test else clause.reason
    return " ".join(f"{name}: {told}".partition('File "')[0].split())[:500]


def _fate(operator: Operator, mutant: Wrong) -> str:
    """Tell whether a wrong gradient is caught: by the first test of the clause, or else by any."""
    for only in ("test_gradient_is_the_derivative", GRADIENT):
        clause = _checked(operator, mutant, only).clause(GRADIENT)
        if clause.broken:
            return CAUGHT
    return f"missed: {clause.verdict} {clause.reason}"[:300].strip()


def rows(wanted: Sequence[Entry]) -> Iterator[Row]:
    """Judge each operator in a process of its own; one that dies or does not end is a row too."""
    torch.set_num_threads(1)
    x = torch.ones(2, dtype=torch.float64, requires_grad=True)
    _checked(Operator("relu", lambda x: [x.relu()], (x,), (True,)), None)  # fills caches for all
    return isolated(wanted, _judged_alone, _ended)


def _judged_alone(entry: Entry) -> Row:
    # OpInfo calls it in every call, and each call queues up for devices that are not there, with tracebacks.
    torch.manual_seed = torch.default_generator.manual_seed
    return judge(entry)


def _ended(entry: Entry, status: int | None) -> Row:
    return {**_row(entry), "verdict": "ended", "found": {"ended": f"its process ended with status {status}"}}


@dataclass(frozen=True)
class Reason:
    """Why operators are accused of a clause, or why a mutant of theirs is missed."""

    operators: tuple[str, ...]
    found: str
    why: str

    def is_of(self, row: Row, found: str) -> bool:
        """Tell whether it explains what was found of an operator; ``NAME in DTYPE`` is for one dtype alone."""
        is_found = found == self.found or (self.found == "not judged" and found.startswith(self.found))
        return is_found and bool({row["operator"], row["implementation"]} & {*self.operators})


def reasons() -> list[Reason]:
    """All that a person has written."""
    written = tomllib.loads(REASONS.read_text(encoding="utf-8"))["reason"]
    return [Reason(tuple(one["operators"]), one["found"], " ".join(one["why"].split())) for one in written]


def findings(found: Iterable[Row]) -> Iterator[tuple[Row, str, str]]:
    """Each accusation and each mutant that was missed: the row, what it is, what was said."""
    for row in found:
        for what, said in row.get("found", {}).items():
            yield row, what, said
        for mutant, fate in row.get("mutants", {}).items():
            if fate != CAUGHT:
                yield row, f"missed: {mutant}", fate


def problems(found: Sequence[Row], written: Sequence[Reason], whole: bool = False) -> list[str]:
    """What has no reason, and, of all operators, reasons for what was not found."""
    there = list(findings(found))
    bad = [
        f"{row['implementation']}: {what}: {said}"
        for row, what, said in there
        if not any(reason.is_of(row, what) for reason in written)
    ]
    if whole:
        unused = [one for one in written if not any(one.is_of(row, what) for row, what, _ in there)]
        bad += [f"a reason for what was not found: {', '.join(one.operators)}: {one.found}" for one in unused]
    return bad


def page(found: Sequence[Row], written: Sequence[Reason]) -> str:
    """The tables of the site: how many conform by dtype, and each accusation and each mutant missed with its reason."""
    titles = ("dtype", "operators", "judged", "conform", "accused or unclear", "mutants", "caught")
    lines = [f"| {' | '.join(titles)} |", "|---" * len(titles) + "|"]
    for dtype in DTYPES:
        own = [row for row in found if row["dtype"] == dtype and row["verdict"] != "not asked"]
        fates = [fate for row in own for fate in row.get("mutants", {}).values()]
        conforming = sum(row["verdict"] == "conforms" for row in own)
        counts = (len(entries([dtype])), len(own), conforming, len(own) - conforming, len(fates), fates.count(CAUGHT))
        lines.append(f"| {dtype} | {' | '.join(map(str, counts))} |")
    lines += ["", "| operators | found | reason |", "|---|---|---|"]
    for reason in written:
        names = dict.fromkeys(row["operator"] for row, what, _ in findings(found) if reason.is_of(row, what))
        clause = f"`{reason.found}`" if reason.found.startswith("Function.") else reason.found
        if names:
            lines.append(f"| {', '.join(f'`{name}`' for name in names)} | {clause} | {reason.why.replace('|', BAR)} |")
    return "\n".join(lines) + "\n"
