"""``python conf/release.py v0.1.0``: say what the release with this tag still lacks."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import clause_ids
from jsonschema import Draft202012Validator

from conformance.core.clauses import digest

ROOT = Path(__file__).parents[1]
SCHEMA = Path("conformance") / "report" / "schema.json"
SCHEMAS = Path("conf") / "report-schemas"


def main(argv: Sequence[str]) -> int:
    """Check the tag that is named; return status 1 if something is missing, 4 if there is no tag."""
    if len(argv) != 1 or not re.fullmatch(r"v\d+\.\d+\.\d+", argv[0]):
        print("name the tag of the release, such as v0.1.0: make release-check TAG=v0.1.0", file=sys.stderr)
        return 4
    missing = list(lacks(ROOT, argv[0].removeprefix("v"), repository(ROOT)))
    for line in missing:
        print(line, file=sys.stderr)
    return 1 if missing or clause_ids.main(["--check"]) else 0


def lacks(root: Path, version: str, source: str) -> Iterator[str]:
    """Yield what the files in ``root`` still lack for ``version``, which is released from the repository ``source``."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    if project["version"] != version:
        yield f"pyproject.toml has version {project['version']}, not {version}"
    if f"version: {version}\n" not in (root / "CITATION.cff").read_text(encoding="utf-8"):
        yield f"CITATION.cff does not have version {version}"
    urls = project["urls"]
    if urls["Source"] != source:
        where = source or "one that nobody else can reach"
        yield f"[project.urls] of pyproject.toml has {urls['Source']}, and the repository is {where}"
    readme = (root / "README.md").read_text(encoding="utf-8")
    for address in re.findall(r"https://[^\s)>]+", readme):
        if project["name"] in address and not address.startswith((urls["Documentation"], urls["Source"])):
            yield f"README.md has {address}, which is under no address of [project.urls]"
    dated = rf"^## {re.escape(version)} \(\d{{4}}-\d\d-\d\d\)$"
    if not re.search(dated, (root / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE):
        yield f"CHANGELOG.md has no section such as '## {version} (2026-12-31)'"
    clauses = digest()
    for report in sorted((root / "docs" / "results").glob("*.json")):
        suite = json.loads(report.read_text(encoding="utf-8")).get("suite", {})
        # What was run on a GPU says of itself when that was: not every release has one at hand.
        if suite.get("clauses_sha256", clauses) != clauses and not report.name.startswith("gpu-"):
            yield f"docs/results/{report.name} was judged by other clauses: make results"
    number = json.loads((root / SCHEMA).read_text(encoding="utf-8"))["properties"]["schema"]["enum"][0]
    if not (root / SCHEMAS / f"{number}.json").exists():
        yield f"the schema has a number that no release had: copy {SCHEMA} to {SCHEMAS / f'{number}.json'}"


def repository(root: Path) -> str:
    """The address of the repository: of the one that a workflow runs in, or of ``origin``; empty for a local one."""
    if name := os.environ.get("GITHUB_REPOSITORY"):
        return f"https://github.com/{name}"
    command = ["git", "-C", str(root), "remote", "get-url", "origin"]
    remote = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    address = re.sub(r"^git@([^:/]+):", r"https://\1/", remote).removesuffix(".git")
    return address if address.startswith("https://") else ""


def departures(report: dict[str, Any], schemas: Path = ROOT / SCHEMAS) -> Iterator[str]:
    """Yield what in a report differs from the first release with its schema number, if there is one."""
    file = schemas / f"{report['schema']}.json"
    if file.exists():
        for error in Draft202012Validator(json.loads(file.read_text(encoding="utf-8"))).iter_errors(report):
            yield f"{error.json_path}: {error.message}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
