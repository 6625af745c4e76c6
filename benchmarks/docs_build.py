"""What a build of the site costs: the first one and those after a change, with one and ten times the clauses."""

from __future__ import annotations

import json
import re
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.measure import ROOT, Figure, Run, once

PARTS = ("conf", "docs", "spec_impl", "conformance", "tests")
FILES = ("pyproject.toml", "README.md", "CHANGELOG.md", "LICENSE", "tox.ini", "Makefile")
CLAUSE = re.compile(r"(?m)^(?P<indent> *)\.\. clause:: (?P<id>\S+)\n(?:(?P=indent) .*\n|\s*\n)*")


def measure(rounds: int) -> dict[str, Any]:
    """Wall and processor seconds of each kind of build, by number of clauses."""
    found: dict[str, Any] = {}
    for times in (1, 10):
        runs: dict[str, list[Run]] = {name: [] for name in CHANGES}
        clauses = 0
        for _ in range(rounds):
            with tempfile.TemporaryDirectory(prefix="site-") as folder:
                home = Path(folder)
                clauses = copy_of_the_site(home, times)
                for name, change in CHANGES.items():
                    change(home)
                    runs[name].append(build(home, strict=times == 1))
        found[str(clauses)] = {
            name: {
                "wall": Figure.of([run.wall for run in own]).to_json(),
                "cpu": Figure.of([run.cpu for run in own]).to_json(),
                "failed": any(run.status for run in own),
            }
            for name, own in runs.items()
        }
    return found


def _nothing(home: Path) -> None:
    """Leave everything as it is."""


def _a_clause(home: Path) -> None:
    file = home / "spec_impl" / "torchlogix" / "__init__.py"
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace("The result equals", "The result is equal to", 1), encoding="utf-8")


def _a_verdict(home: Path) -> None:
    file = home / "docs" / "results" / "reference.json"
    report = json.loads(file.read_text(encoding="utf-8"))
    next(clause for clause in report["engine"] if clause["verdict"] == "pass")["verdict"] = "fail"
    file.write_text(json.dumps(report), encoding="utf-8")


#: What is done before each build.
CHANGES: dict[str, Callable[[Path], None]] = {
    "the first": _nothing,
    "nothing changed": _nothing,
    "a clause changed": _a_clause,
    "a verdict changed": _a_verdict,
}


def copy_of_the_site(home: Path, times: int) -> int:
    """What a build reads, in a folder of its own, each clause several times under other ids; how many there are."""
    for part in PARTS:
        shutil.copytree(ROOT / part, home / part, ignore=shutil.ignore_patterns("_build", "api", "__pycache__"))
    for name in FILES:
        shutil.copy(ROOT / name, home / name)
    count = 0
    for file in sorted((home / "spec_impl").rglob("*.py")):
        text, found = CLAUSE.subn(lambda match: _repeated(match, times), file.read_text(encoding="utf-8"))
        file.write_text(text, encoding="utf-8")
        count += found
    return count * times


def _repeated(match: re.Match[str], times: int) -> str:
    block, identifier = match[0], match["id"]
    more = [block.replace(identifier, f"{identifier}-{number}", 1) for number in range(2, times + 1)]
    return "".join([block, *more])


def build(home: Path, strict: bool) -> Run:
    """One build, as `make docs` does it. Repeated clauses have no tests of their own, and are warned of."""
    command = [sys.executable, "-m", "sphinx", "-q", "-b", "html", "-n", *(["-W", "--keep-going"] if strict else [])]
    return once([*command, "-c", str(home / "conf"), str(home / "docs"), str(home / "docs" / "_build" / "html")])
