"""``python conf/results.py``: run the suite and keep its reports where the site finds them.

One report for the reference, and one for each published implementation that ``published`` knows.
Keys that say nothing are left out, which the schema allows and which makes the files a third of the size. With
``--brief`` tests that hold are left out as well, and of the others what each rank said: of a release beside the main
one, and of what others published, verdicts and messages are what a reader wants.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.measure import machine  # noqa: E402
from conformance.core.outcomes import BROKEN  # noqa: E402

RESULTS = ROOT / "docs" / "results"


def main(argv: Sequence[str] | None = None) -> int:
    """Run what was asked for; words after ``--`` go to ``conformance run``."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", nargs="?", choices=["all", "reference", "published", "keep"], default="all")
    parser.add_argument("--name", default="reference", help="what the file of the reference is called")
    parser.add_argument("--from", dest="source", type=Path, help="with keep: a report.json that is there already")
    parser.add_argument("--brief", action="store_true", help="keep only tests that broke, and no rank's own words")
    words = list(sys.argv[1:] if argv is None else argv)
    cut = words.index("--") if "--" in words else len(words)
    arguments, more = parser.parse_args(words[:cut]), words[cut + 1 :]
    if arguments.part == "keep":
        keep(arguments.source, arguments.name, arguments.brief)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        if arguments.part in {"all", "reference"}:
            command = [sys.executable, "-m", "conformance", "run", "--report", folder, *more]
            subprocess.run(command, check=False)
            keep(Path(folder) / "report.json", arguments.name, arguments.brief)
        if arguments.part in {"all", "published"}:
            subprocess.run([sys.executable, "-m", "published", "--report", f"{folder}/published"], check=False)
            for report in sorted(Path(folder, "published").glob("*/report.json")):
                keep(report, f"published-{report.parent.name}", brief=True)
    return 0


def keep(report: Path, name: str, brief: bool = False, into: Path = RESULTS) -> None:
    """Write a report to the results, without empty keys."""
    into.mkdir(parents=True, exist_ok=True)
    text = report.read_text("utf-8")
    for place in (ROOT, sys.prefix, sys.base_prefix):
        text = text.replace(f"{place}/", "")  # where this machine keeps things is nobody's business
    data = {**json.loads(text), "machine": machine()}
    if brief:
        _shorten(clause for part in ({"clauses": data["engine"]}, *data["subjects"]) for clause in part["clauses"])
    needed = {"reason", "message", "reproduce", "ranks", "tests", "exitcode"}
    target = into / f"{name}.json"
    target.write_text(
        json.dumps(_without_empty(data, needed), ensure_ascii=False, separators=(",", ":")) + "\n", "utf-8"
    )
    print(f"{target.name}: {target.stat().st_size // 1024} KiB")


def _shorten(clauses: Iterable[dict[str, Any]]) -> None:
    for clause in clauses:
        clause["tests"] = [test for test in clause["tests"] if test["outcome"] in BROKEN]
        for test in clause["tests"]:
            test["ranks"] = []
        if clause["verdict"] in {"pass", "not-applicable"}:
            clause.pop("text", None)


def _without_empty(value: Any, needed: set[str]) -> Any:
    if isinstance(value, dict):
        return {
            key: _without_empty(part, needed)
            for key, part in value.items()
            if part not in ("", [], None) or key in needed | {"engine", "subjects"}
        }
    return [_without_empty(part, needed) for part in value] if isinstance(value, list) else value


if __name__ == "__main__":
    sys.exit(main())
