"""``--reproduce DIR``: for every failure a script with torch alone, for maintainers who do not know this suite.

A short script is kept only after it was seen to fail; otherwise the script carries the suite's own test with it.
"""

from __future__ import annotations

import ast
import itertools
import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from conformance.core.homes import Home, facts_in, homes, outside
from conformance.core.outcomes import EARLIER_CALLS
from conformance.core.output import visible
from conformance.core.plan import PlannedTest
from conformance.report.failures import Failure, failures
from conformance.report.files import prepare, write
from conformance.report.model import ClauseResult, Report, SubjectResult
from conformance.reproduce.assemble import PIECES, assembled
from conformance.reproduce.whole import whole_script

#: What a short script may take before it is given up for the long one (seconds).
PATIENCE = 120.0
#: How much of a subject's name goes into that of its script, which may have 255 with clause and number (bytes).
LONGEST_NAME = 120
#: What every script promises.
STATUSES = (
    "it prints what is wrong and exits with status 1 while the bug is there, with 0 once it is fixed, and with 2 if it "
    "could not finish."
)


@dataclass(frozen=True)
class Wanted:
    """One failure, and what is known about it."""

    part: SubjectResult
    clause: ClauseResult
    failure: Failure
    item: PlannedTest
    torch: str
    device: str = "cpu"
    backend: str = "gloo"


def write_scripts(report: Report, tests: Sequence[PlannedTest], folder: Path | str, timeout: float) -> list[Path]:
    """Write a script for every failure of a report.

    Args:
        report: of a run in this environment.
        tests: what the run had planned.
        folder: where to; made if there is none.
        timeout: the deadline of a test, in seconds.

    Raises:
        UsageError: the folder or a script cannot be written.
    """
    folder = prepare(folder)
    written: list[Path] = []
    known: set[tuple[str, str, str]] = set()
    for wanted in _wanted(report, tests):
        head, short, whole = docstring(wanted), *bodies(wanted, timeout)
        if short and (wanted.part.subject, wanted.clause.id, short) in known:
            continue  # the same lines show another way in which the clause was broken
        known.add((wanted.part.subject, wanted.clause.id, short))
        path = write(_free(folder, wanted, written), head + (short or whole))
        if short and not _fails(path):
            write(path, head + whole)
        written.append(path)
    return written


def bodies(wanted: Wanted, timeout: float) -> tuple[str, str]:
    """Return the code below the docstring: a few lines if they are enough, and the suite's own test."""
    hangs = wanted.failure.test.outcome in {"crash", "timeout"}
    return _short(wanted), whole_script(wanted.item, timeout, hangs, wanted.device, wanted.backend)


def _wanted(report: Report, tests: Sequence[PlannedTest]) -> Iterator[Wanted]:
    planned = {test.nodeid: test for test in tests}
    usual = {"torch": "", "device": "cpu", "backend": "gloo"}
    there = {name: str(report.environment.get(name, value)) for name, value in usual.items()}
    for part in report.parts:
        for clause in part.clauses:
            for failure in failures(clause) if clause.broken else ():
                # A resumed run may have a test that is no longer planned; a script makes the calls of one test only.
                if failure.test.nodeid in planned and failure.likely != EARLIER_CALLS:
                    yield Wanted(part, clause, failure, planned[failure.test.nodeid], **there)


def _free(folder: Path, wanted: Wanted, written: Sequence[Path]) -> Path:
    """Return a name that no other script of this run has."""
    subject = re.sub(r"\W+", "_", wanted.part.subject).strip("_") or "torch"
    subject = subject.encode()[:LONGEST_NAME].decode(errors="ignore")
    name = f"{subject}-{wanted.clause.id}"
    names = itertools.chain([name], (f"{name}-{number}" for number in itertools.count(2)))
    return next(path for path in (folder / f"{each}.py" for each in names) if path not in written)


def docstring(wanted: Wanted) -> str:
    """Write the clause, the actual and the expected value, the place, and how to run the script."""
    test = wanted.failure.test
    name = wanted.part.subject or "PyTorch itself"
    said = [f"    {line}" for line in visible(test.message).splitlines()[:24]]
    needs = f"This script needs {' and '.join(_needs(wanted))}. Run it where those can be imported:"
    lines = [
        *textwrap.wrap(f"{wanted.clause.id}: {wanted.clause.text}", 100),
        "",
        f"{name} does not keep this with PyTorch {wanted.torch}:",
        "",
        *said,
        "",
        *textwrap.wrap(f"{needs} {STATUSES}", 110),
    ]
    text = visible("\n".join(lines)).replace("\\", "\\\\").replace('"""', "'''").rstrip('"')
    return f'"""{text}\n"""\n\n'


def _needs(wanted: Wanted) -> Iterator[str]:
    yield "torch"
    if wanted.part.subject:
        yield re.split(r"[.:]", wanted.part.subject)[0]
    yield from (home.distribution for home in outside([wanted.part.spec]))
    device = wanted.device.partition(":")[0]
    if device == "emulated":
        yield "the emulated device of autograd-conformance"
    elif device != "cpu":
        yield f"the device {device}"


def _short(wanted: Wanted) -> str:
    """Return the short script for a failure, or an empty string if there is none."""
    item, clause = wanted.item, wanted.clause.id
    if wanted.failure.test.outcome != "fail" or item.subject is None:
        return ""
    module, _, name = item.subject.reference.partition(":")
    if not _is_class(module, name):
        return ""
    for home in homes([item.spec]):
        if facts_in(home.folder, home.name).get("script") == clause:
            return gather_script(home, item.size, item.subject.reference)
    samples = _samples(item)
    if not samples or not (PIECES / f"{_piece(clause)}.py").is_file():
        return ""
    return single_script(clause, item.subject.reference, *samples)


def single_script(clause: str, reference: str, own_imports: Sequence[str], samples: str) -> str:
    """Return the short script of a clause that one rank shows, given a class's reference and code for samples."""
    module, _, name = reference.partition(":")
    lines = [f"from {module} import {name} as Function", *own_imports, "", ""]
    lines += ["def samples():", "    torch.manual_seed(1000)", f"    return list({samples})"]
    return assembled(_piece(clause), {"subject": "\n".join(lines)})


def gather_script(home: Home, size: int, reference: str) -> str:
    """Return the short script for the gradient of a gather, which starts its own ranks: ``script.py`` of the spec."""
    module, _, name = reference.partition(":")
    entries = (home.folder / "script.py").read_text("utf-8").partition("SIZE = 2\n")[2]
    imports = "import types\n\n" if "types." in entries else ""
    given = {"subject": f"from {module} import {name} as Function", "gathered": f"{imports}SIZE = {size}\n{entries}"}
    return assembled("gather", given)


def _piece(clause: str) -> str:
    """Return the name of the piece that shows a clause of the contract.

    >>> _piece("Function.backward.any-layout")
    'backward_any_layout'
    """
    return re.sub(r"[.-]", "_", clause.removeprefix("Function."))


def _samples(item: PlannedTest) -> tuple[list[str], str] | None:
    """Say where the arguments come from: lines that import it, and the expression."""
    assert item.subject is not None
    if item.subject.inputs:
        module, _, name = item.subject.inputs.partition(":")
        root = name.partition(".")[0]
        return [f"from {module} import {root}"], f"{name}()"
    facts = [facts_in(home.folder, home.name) for home in homes([item.spec])]
    return next((([], f"[{page['sample']}]") for page in facts if "sample" in page), None)


def _is_class(module: str, name: str) -> bool:
    """Tell whether the module's source has a class of this name, which then needs no adapter."""
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
    """Tell whether a script exits with status 1, as a script that shows a bug does."""
    try:
        done = subprocess.run(
            [sys.executable, str(path)], capture_output=True, timeout=PATIENCE, check=False, stdin=subprocess.DEVNULL
        )
    except (subprocess.TimeoutExpired, OSError):
        return False
    return done.returncode == 1 and b"Traceback" not in done.stderr
