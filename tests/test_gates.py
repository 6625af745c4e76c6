"""The gates: no clause without a test and a planted bug, no test without a clause, and a proof that is up to date."""

from __future__ import annotations

import ast
import json
import re
from importlib import import_module
from pathlib import Path

import pytest

from conformance import kit
from conformance.core import catalog, clauses, homes
from tests.proof import implementations
from tests.proof.__main__ import wrong
from tests.proof.matrix import Row

TESTS = Path(__file__).parent
ROOT = TESTS.parent
DATA = ROOT / "docs" / "data"
KINDS = ("planted", "correct")
MATRIX = json.loads((DATA / "kill-matrix.json").read_text(encoding="utf-8"))


def test_every_clause_is_asserted_by_a_test():
    asserted = {test.clause for test in catalog.suite()}
    assert set(clauses.registry()) - asserted == set()


def test_every_test_asserts_a_clause_that_a_docstring_states():
    assert {test.clause for test in catalog.suite()} - set(clauses.registry()) == set()


def test_every_test_asserts_in_its_own_body():
    """By ``assert``, ``raise`` or something called ``expect``, so that a reader sees there what it asserts."""
    hidden = []
    for file in sorted({test.file for test in catalog.suite()}):
        for node in ast.parse(file.read_text("utf-8")).body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                called = [ast.unparse(part.func) for part in ast.walk(node) if isinstance(part, ast.Call)]
                asserted = any(re.search(r"(?:^|\.)_?expect", name) for name in called)
                if not asserted and not any(isinstance(part, ast.Assert | ast.Raise) for part in ast.walk(node)):
                    hidden.append(f"{file.stem}.{node.name}")
    assert hidden == []


def test_the_compiler_and_the_transforms_are_used_under_the_names_that_the_plan_looks_for():
    """The plan finds them by their names in the source; under another name a test would share ranks with all others."""
    without_compiler = {"torch.func.jvp", "torch.func.jacfwd", "torch.func.vmap", "torch.func.functional_call"}
    package = Path(catalog.__file__).parents[1]
    hidden = []
    tests = {test.file for test in catalog.suite()}
    for file in sorted((*tests, *(package / "kit").rglob("*.py"))):
        text = file.read_text("utf-8")
        nodes = list(ast.walk(ast.parse(text)))
        used = {ast.unparse(node) for node in nodes if isinstance(node, ast.Attribute)}
        imported = [node for node in nodes if isinstance(node, ast.ImportFrom) and node.module == "torch"]
        names = {f"torch.{alias.name}" for node in imported for alias in node.names}
        compiles = "torch.compile" in used | names
        transforms = any(name.startswith("torch.func.") for name in used - without_compiler) or "torch.func" in names
        if (compiles and not re.search(catalog.COMPILER, text)) or (
            transforms and not re.search(catalog.TRANSFORMS, text)
        ):
            hidden.append(file.name)
    assert hidden == []


def _defined(node):
    """The names that a statement of a module defines."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return {node.name}
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return {part.id for target in targets for part in ast.walk(target) if isinstance(part, ast.Name)}


def test_the_public_kit_is_what_the_policies_list_and_is_imported_in_one_way():
    """Each name from ``conformance.kit`` itself: the homes of the names are the kit's own business."""
    package = Path(catalog.__file__).parents[1]
    listed = re.findall(
        r"^- `(conformance\.kit\.\S+)`", (ROOT / "docs" / "policies.md").read_text("utf-8"), re.MULTILINE
    )
    homes_of = {name: module for module in listed for name in import_module(module).__all__}
    homes_of = {name: module for name, module in homes_of.items() if module != "conformance.kit.expect"}
    assert {*homes_of, "expect"} == set(kit.__all__)
    elsewhere = []
    folders = (
        package / "suite",
        package / "template",
        ROOT / "spec_impl",
        ROOT / "specs" / "operator" / "operator_spec",
    )
    for file in sorted(file for folder in folders for file in folder.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.ImportFrom):
                elsewhere += [f"{file.name}: {own.name}" for own in node.names if homes_of.get(own.name) == node.module]
    assert elsewhere == []


def test_a_public_name_means_one_thing_in_kit_and_suite():
    """What a module keeps to itself has an underscore. All oracles have a NAME, and judge a gradient by ``judge``."""
    package = Path(catalog.__file__).parents[1]
    homes_of = {}
    for file in sorted(file for part in ("kit", "suite") for file in (package / part).rglob("*.py")):
        for name in set().union(*map(_defined, ast.parse(file.read_text("utf-8")).body)):
            of_the_oracles = file.parent.name == "oracles" and name in {"NAME", "judge"}
            if not name.startswith(("_", "test_")) and not of_the_oracles:
                homes_of.setdefault(name, []).append(str(file.relative_to(package)))
    assert {name: files for name, files in homes_of.items() if len(files) > 1} == {}


def test_no_file_of_kit_and_suite_is_past_a_few_screens():
    files = [file for room in ("kit", "suite") for file in (ROOT / "conformance" / room).rglob("*.py")]
    assert len(files) > 100
    assert {file.name for file in files if len(file.read_text().splitlines()) > 300} == set()


def test_whatever_stands_among_the_implementations_is_one():
    """A class without "Breaks: CLAUSE", or without a docstring, would be passed over in silence."""
    held = {found.reference for found in (*implementations.planted(), *implementations.correct())}
    passed_over = []
    files = [(file, f"tests.{kind}.{file.stem}", kind) for kind in KINDS for file in (TESTS / kind).glob("[!_]*.py")]
    for home in homes.ours().values():
        files += [
            (file, f"{home.package}.{file.stem}", kind) for kind in KINDS for file in home.folder.glob(f"{kind}*.py")
        ]
    for file, module, kind in files:
        for node in ast.parse(file.read_text("utf-8")).body:
            kinds = (ast.ClassDef, ast.FunctionDef) if kind == "planted" else ast.ClassDef
            if not isinstance(node, kinds) or node.name.startswith("_") or node.name == "inputs":
                continue
            if f"{module}:{node.name}" not in held:
                passed_over.append(f"{module}: {node.name}")
    assert passed_over == []


def test_every_planted_bug_names_clauses_that_there_are():
    assert {bug.breaks for bug in implementations.planted()} - set(clauses.registry()) == set()


def test_what_a_planted_bug_breaks_besides_is_measured_and_not_listed():
    assert [bug.reference for bug in implementations.planted() if "Also:" in bug.text] == []


def test_a_clause_that_a_bug_breaks_newly_is_a_problem():
    bug = implementations.planted()[0]
    own, other = bug.breaks, next(name for name, clause in clauses.registry().items() if clause.level == "must")
    row = Row(bug, {own: "fail: as meant", other: "fail: as well"}, {}, {}, (), 1)
    assert wrong(row, {"also": [other]}) == []
    assert wrong(row, {}) == [f"{bug.reference} now also breaks {other}: fail: as well"]


def test_a_clause_that_does_not_judge_a_right_class_any_more_is_a_problem():
    right = implementations.correct()[0]
    row = Row(right, {}, {}, {"Function.backward.gradient": "differences cannot tell"}, (), 1)
    assert wrong(row, {"unjudged": ["Function.backward.gradient"]}) == []
    assert wrong(row, {}) == [f"{right.reference} is not judged by Function.backward.gradient: differences cannot tell"]


@pytest.mark.parametrize(
    ("file", "there"),
    [
        ("kill-matrix", [*implementations.planted(), *implementations.correct()]),
        ("scripts", implementations.planted()),
        ("peers", implementations.of_the_contract()),
    ],
)
def test_the_data_of_the_proof_are_of_the_implementations_that_there_are(file, there):
    rows = json.loads((DATA / f"{file}.json").read_text("utf-8"))["rows"]
    part = file.removeprefix("kill-")
    assert [row["implementation"] for row in rows] == [found.reference for found in there], (
        f"run python -m tests.proof {part} --new"
    )


def test_every_clause_has_killed_a_bug():
    killed = {row["breaks"] for row in MATRIX["rows"] if row["caught"]}
    assert set(clauses.registry()) - killed == set(), "plant a bug, and run make kill-matrix"


def test_no_bug_survived_and_nothing_correct_was_accused():
    assert [row["implementation"] for row in MATRIX["rows"] if row["breaks"] and not row["caught"]] == []
    assert [row["implementation"] for row in MATRIX["rows"] if not row["breaks"] and row["also"]] == []
