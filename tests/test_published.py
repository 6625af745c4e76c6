"""The table of published implementations: its entries make sense, and so does what is on record of them."""

from __future__ import annotations

import ast
import json
import re
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

from conformance.core import homes
from conformance.core.signatures import parse
from published.packages import PACKAGES, package
from published.result import Row, merge
from published.table import adapter_file, entries

ENTRIES = entries()
RESULTS = Path("docs/data/published.json")


def test_every_package_is_pinned_and_has_subjects():
    for entry in PACKAGES:
        assert entry.version or entry.name.startswith("torch."), entry
        assert all("==" in need for need in entry.needs), entry
        assert entries((entry,)), f"{adapter_file(entry).name} has no subject"


def test_names_on_the_command_line_are_unambiguous():
    assert all(package(entry.key) is entry for entry in PACKAGES)


def test_the_table_is_as_large_as_promised():
    published = {entry.package.name for entry in ENTRIES if entry.package.version}
    assert len(ENTRIES) >= 150
    assert len(published) >= 50
    assert sum(bool(entry.types) for entry in ENTRIES) >= 40


def test_every_entry_names_a_spec_and_a_target():
    for entry in ENTRIES:
        assert entry.spec in homes.names(), entry
        assert re.fullmatch(r"[\w.]+:\w+", entry.target), entry


def test_every_collective_claims_types_that_can_be_read():
    for entry in ENTRIES:
        assert bool(entry.types) == (entry.spec == "Collective"), entry
        assert not entry.types or parse(entry.types), entry


def test_every_adapter_is_in_the_table():
    adapters = {entry.adapter for entry in PACKAGES}
    for file in adapter_file(PACKAGES[0]).parent.glob("*.py"):
        holds = any(
            re.match(r"\w+ = (Subject|collective)\(", line) for line in file.read_text(encoding="utf-8").splitlines()
        )
        assert not holds or file.stem in adapters, f"{file.name} has subjects that nobody runs"


def test_a_note_says_why_a_subject_fails():
    for row in Row.read(RESULTS):
        if row.verdict == "fails":
            note = Path("docs/failures", f"{row.package}.md")
            assert row.subject in note.read_text(encoding="utf-8"), (
                f"{row.reference} fails, and {note} does not say why"
            )


def test_every_subject_has_a_verdict_on_record():
    assert {row.reference for row in Row.read(RESULTS)} == {entry.reference for entry in ENTRIES}


def test_runs_that_write_at_the_same_time_lose_no_row(tmp_path):
    names = [entry.reference for entry in ENTRIES[:12]]
    with ProcessPoolExecutor(6) as writers:
        list(writers.map(_record, [tmp_path / "published.json"] * len(names), names))
    assert [row.reference for row in Row.read(tmp_path / "published.json")] == names


def _record(file, reference):
    merge([Row("package", "1", "Subject", reference, "Function", "conforms", "2.13.0")], file)


def test_records_hold_no_path_of_the_machine_they_were_made_on():
    assert not re.search(r"/(home|work|root|Users)/", json.dumps(RESULTS.read_text(encoding="utf-8")))


@pytest.mark.parametrize("script", sorted(Path("docs/failures").glob("*.py")), ids=lambda script: script.stem)
def test_scripts_read_as_python(script):
    tree = ast.parse(script.read_text(encoding="utf-8"))
    assert ast.get_docstring(tree)
