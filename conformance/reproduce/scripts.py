"""``--reproduce DIR``: for every failure a script with torch alone, for a maintainer who never heard of this suite.

A short script is kept only after it was seen to fail; otherwise the script carries the suite's own test with it.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from conformance.core import catalog, clauses
from conformance.core.plan import PlannedTest, SubjectRef, plan
from conformance.report.failures import Failure, failures
from conformance.report.files import prepare, write
from conformance.report.model import ClauseResult, Report, SubjectResult
from conformance.report.text import visible
from conformance.reproduce import bundle, short

#: What a short script may take before it is given up for the long one (seconds).
PATIENCE = 120.0
#: By spec: sample arguments as the suite makes them, in a line of Python.
SAMPLES = {
    "GradFactor": "[(torch.randn(3, 2, dtype=torch.float64, requires_grad=True), -2.0)]",
    "MakeViewlessTensor": "[(torch.randn(4, 3, dtype=torch.float64, requires_grad=True).view(3, 4), True)]",
}


@dataclass(frozen=True)
class Wanted:
    """One failure, and what is known of it."""

    part: SubjectResult
    clause: ClauseResult
    failure: Failure
    item: PlannedTest
    torch: str


def write_scripts(report: Report, folder: Path | str, inputs: str | None = None, timeout: float = 30.0) -> list[Path]:
    """Write a script for every failure of a report.

    Args:
        report: of a run in this environment.
        folder: where to; made where there is none.
        inputs: the callable that ``--inputs`` named.
        timeout: the deadline of a test, in seconds.

    Raises:
        UsageError: the folder or a script cannot be written.
    """
    folder = prepare(folder)
    written: list[Path] = []
    known: set[tuple[str, str, str]] = set()
    for wanted in _wanted(report, inputs):
        short = _short(wanted)
        if short and (wanted.part.subject, wanted.clause.id, short) in known:
            continue  # the same lines show another way in which the clause was broken
        known.add((wanted.part.subject, wanted.clause.id, short))
        whole = bundle.script(wanted.item, timeout)
        path = write(_free(folder, wanted, written), _docstring(wanted) + (short or whole))
        if short and not _fails(path):
            write(path, _docstring(wanted) + whole)
        written.append(path)
    return written


def _wanted(report: Report, inputs: str | None) -> Iterator[Wanted]:
    version = str(report.environment.get("torch", ""))
    for part in report.parts:
        broken = [clause for clause in part.clauses if clause.broken]
        items = _items(part, report.environment.get("ranks", ()), inputs) if broken else {}
        for clause in broken:
            for failure in failures(clause):
                if failure.test.nodeid in items:
                    yield Wanted(part, clause, failure, items[failure.test.nodeid], version)


def _items(part: SubjectResult, ranks: Sequence[int], inputs: str | None) -> dict[str, PlannedTest]:
    """The tests that concern a subject, by their names."""
    registry = clauses.registry()
    subjects = []
    if part.subject:
        reference = part.subject.removesuffix(f" ({part.spec})")
        subjects = [SubjectRef(reference, part.spec, inputs, part.subject)]
    items = plan(catalog.suite(), registry, subjects, tuple(ranks))
    return {item.nodeid: item for item in items if bool(item.subject) == bool(subjects)}


def _free(folder: Path, wanted: Wanted, written: Sequence[Path]) -> Path:
    """A name that no other script of this run has."""
    subject = re.sub(r"\W+", "_", wanted.part.subject).strip("_") or "torch"
    for number in range(1, len(written) + 2):
        path = folder / f"{subject}-{wanted.clause.id}{f'-{number}' if number > 1 else ''}.py"
        if path not in written:
            return path
    raise AssertionError


def _docstring(wanted: Wanted) -> str:
    """Clause, the actual and the expected value, where, and how to run the script."""
    test = wanted.failure.test
    name = wanted.part.subject or "PyTorch itself"
    said = [f"    {line}" for line in visible(test.message).splitlines()[:24]]
    needs = f"torch and {name.partition('.')[0].partition(':')[0]}" if wanted.part.subject else "torch"
    lines = [
        *textwrap.wrap(f"{wanted.clause.id}: {wanted.clause.text}", 100),
        "",
        f"{name} does not keep this with PyTorch {wanted.torch}:",
        "",
        *said,
        "",
        f"This script needs {needs}. Run it where those can be imported: it prints what is wrong and exits with",
        "status 1 while the bug is there, and with status 0 once it is fixed.",
    ]
    text = visible("\n".join(lines)).replace("\\", "\\\\").replace('"""', "'''").rstrip('"')
    return f'"""{text}\n"""\n\n'


def _short(wanted: Wanted) -> str:
    """The short script for a failure, or nothing where there is none."""
    item, clause = wanted.item, wanted.clause.id
    if wanted.failure.test.outcome != "fail" or item.subject is None:
        return ""
    module, _, name = item.subject.reference.partition(":")
    if not _is_class(module, name):
        return ""
    if body := short.gather(clause, item.size):
        heads = [
            "os",
            "sys",
            "tempfile",
            "types",
            "",
            "torch",
            "torch.distributed as dist",
            "torch.multiprocessing as mp",
        ]
        return _imports(heads, [f"from {module} import {name} as Function"]) + body
    body, samples = short.single(clause), _samples(item)
    if not body or not samples:
        return ""
    own, made = samples
    own = [*(["from torch.autograd.gradcheck import GradcheckError"] * ("GradcheckError" in body)), *own]
    head = _imports(["os", "sys", "", "torch"], [f"from {module} import {name} as Function", *own])
    return f"{head}\n\ndef samples():\n    torch.manual_seed(1000)\n    return list({made})\n{body}"


def _imports(modules: Sequence[str], own: Sequence[str]) -> str:
    lines = [f"import {module}" if module else "" for module in modules]
    lines += ["", "sys.path.insert(0, os.getcwd())", *own]
    return "\n".join(lines) + "\n\n"


def _samples(item: PlannedTest) -> tuple[list[str], str] | None:
    """Where the arguments come from: lines that import it, and the expression."""
    assert item.subject is not None
    if item.subject.inputs:
        module, _, name = item.subject.inputs.partition(":")
        root = name.partition(".")[0]
        return [f"from {module} import {root}"], f"{name}()"
    return ([], SAMPLES[item.spec]) if item.spec in SAMPLES else None


def _is_class(module: str, name: str) -> bool:
    """Whether a class of that name stands in the module's source: then it needs no adapter of ours."""
    for folder in (os.getcwd(), *filter(None, sys.path)):
        stem = Path(folder).joinpath(*module.split("."))
        for file in (stem.with_suffix(".py"), stem / "__init__.py"):
            if file.is_file():
                try:
                    tree = ast.parse(file.read_text("utf-8"))
                except (OSError, ValueError, SyntaxError):
                    return False
                return any(isinstance(node, ast.ClassDef) and node.name == name for node in tree.body)
    return False


def _fails(path: Path) -> bool:
    """Whether a script exits with status 1, as a script that shows a bug does."""
    try:
        done = subprocess.run(
            [sys.executable, str(path)], capture_output=True, timeout=PATIENCE, check=False, stdin=subprocess.DEVNULL
        )
    except (subprocess.TimeoutExpired, OSError):
        return False
    return done.returncode == 1 and b"Traceback" not in done.stderr
