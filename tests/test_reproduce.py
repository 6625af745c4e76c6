"""``--reproduce DIR``: scripts that show each failure with torch alone, and are content once the bug is gone."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import conformance
from conformance.core import catalog, clauses
from conformance.core.homes import find
from conformance.core.plan import PlannedTest, SubjectRef
from conformance.reproduce.assemble import assembled
from conformance.reproduce.scripts import gather_script
from conformance.reproduce.whole import FACE, embedded, whole_script
from tests.faults.command import run
from tests.proof.scripts import Alone

BUGS = Path(__file__).parent / "reproduced"
GATHER = find("AllGatherGradAutograd")
#: By bug: the clause it breaks, and whether a few lines are enough to show it.
EXPECTED = {
    "Doubled": ("Function.backward.gradient", True),
    "OneMissing": ("Function.backward.count", True),
    "Changes": ("Function.backward.grads-untouched", True),
    "Viewed": ("Function.backward.any-layout", True),
    "Kept": ("Function.forward.no-tensor-on-ctx", True),
    "Detached": ("Function.backward.double", True),
    "Saved": ("Function.save_for_backward.once", False),
    "Rule": ("Function.jvp.tangent", True),
}
TESTS = {test.function: test for test in catalog.suite()}
#: The tests that see them; all others of the suite would only take time here.
SEEING = " or ".join(
    [
        "test_gradient_is_the_derivative",
        "test_one_value_for_each_input",
        "test_incoming_gradients_are_left_alone",
        "test_layout_of_incoming_gradients",
        "test_ctx_holds_no_tensor",
        "test_second_derivative_is_right_or_refused",
        "test_save_for_backward_is_called_once",
        "test_tangent_is_the_directional",
    ]
)


@pytest.fixture(scope="module", autouse=True)
def alone(tmp_path_factory) -> Path:
    """A folder that comes first on the path, in which this suite cannot be imported."""
    folder = tmp_path_factory.mktemp("alone")
    for name in ("conformance", "spec_impl", "tests"):
        (folder / f"{name}.py").write_text("raise ImportError('torch alone was promised')")
    os.environ["TORCH_ALONE"] = str(folder)
    return folder


def script(path: Path, **environment: str) -> tuple[int, str]:
    """Run a script where only torch and the module with the bugs can be imported."""
    around = os.environ | {"PYTHONPATH": os.environ["TORCH_ALONE"]} | environment
    done = subprocess.run(
        [sys.executable, str(path)], cwd=BUGS, env=around, capture_output=True, text=True, timeout=600
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


@pytest.fixture(scope="module")
def written(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("reproduce")
    subjects = [f"bugs:{name}" for name in EXPECTED]
    words = ["--inputs", "bugs:inputs", "--reproduce", str(folder / "scripts"), "-k", SEEING]
    status, out, err = run("run", *subjects, *words, cwd=BUGS)
    assert status == 1, out + err
    assert "shows a failure with torch alone" in out
    return folder / "scripts"


@pytest.fixture(scope="module")
def broken(alone: Path) -> Iterator[Alone]:
    """A process for scripts: it has imported torch, and what they start is forked from it."""
    with Alone(BUGS, PYTHONPATH=str(alone)) as process:
        yield process


@pytest.fixture(scope="module")
def mended(alone: Path) -> Iterator[Alone]:
    """The same, where the bugs are fixed."""
    with Alone(BUGS, PYTHONPATH=str(alone), FIXED="1") as process:
        yield process


@pytest.fixture(scope="module")
def ran(written: Path, broken: Alone, mended: Alone) -> dict[str, tuple[tuple[int, str], tuple[int, str]]]:
    """What each script says of the bug, and of the class once it is mended."""
    texts = {name: (written / f"bugs_{name}-{clause}.py").read_text() for name, (clause, _) in EXPECTED.items()}
    return {name: (broken.run(text), mended.run(text)) for name, text in texts.items()}


@pytest.mark.parametrize("name", EXPECTED)
def test_a_script_exits_1_while_the_bug_is_there_and_0_once_it_is_fixed(ran, name):
    (status, said), (mended, content) = ran[name]
    assert status == 1, said
    assert mended == 0, content
    assert "Traceback" not in said + content


def test_scripts_print_what_came_and_what_is_right(ran):
    for name, words in {
        "Doubled": ["numerical", "analytical"],
        "OneMissing": ["backward returned 1 values; forward had 2 inputs"],
        "Changes": ["handed in as", "after backward it is [[0.0"],
        "Kept": ["ctx.x holds a tensor"],
        "Saved": ["save_for_backward"],
    }.items():
        assert all(word in ran[name][0][1] for word in words), ran[name][0][1]


@pytest.mark.parametrize("name", EXPECTED)
def test_a_script_begins_with_the_clause_what_came_and_which_torch(written, name):
    clause, short = EXPECTED[name]
    text = (written / f"bugs_{name}-{clause}.py").read_text("utf-8")
    doc = ast.get_docstring(ast.parse(text)) or ""
    assert doc.startswith(f"{clause}: ")
    assert f"bugs:{name} does not keep this with PyTorch 2." in doc
    assert "status 1 while the bug is there" in doc
    assert (len(text.splitlines()) < 120) == short


def shows_the_sum(status: int, said: str, size: int) -> None:
    assert status == 1, said
    assert all(f"rank {rank} of {size}: gradient" in said for rank in range(size))
    assert "the sum over all ranks is" in said


def test_a_gather_is_shown_on_ranks_of_its_own(tmp_path):
    """As a stranger runs it: a command, whose ranks are started and not forked."""
    path = tmp_path / "gather.py"
    path.write_text(gather_script(GATHER, 2, "bugs:Gather"))
    shows_the_sum(*script(path), 2)
    assert script(path, FIXED="1")[0] == 0


def test_a_gather_is_shown_on_three_ranks(broken, mended):
    text = gather_script(GATHER, 3, "bugs:Gather")
    shows_the_sum(*broken.run(text), 3)
    assert mended.run(text)[0] == 0


def test_a_test_of_the_suite_runs_on_ranks_out_of_a_script(broken, mended):
    test = TESTS["test_gradient_is_that_of_all_losses_together"]
    subject = SubjectRef("bugs:Gather", "AllGatherGradAutograd", None, "bugs:Gather")
    text = whole_script(PlannedTest(test, subject, 2, True, test.cases[0]), 60.0)
    status, said = broken.run(text)
    assert status == 1, said
    assert "actual:" in said
    assert "expected:" in said
    status, said = mended.run(text)
    assert status == 0, said


def test_a_script_of_a_collective_knows_its_types_and_the_names_its_module_takes_from_the_suite(tmp_path, mended):
    """As a stranger runs it: what is forked has imported too much to show that each rank finds what it needs."""
    path = tmp_path / "collective.py"
    test = TESTS["test_gradients_are_those_owed"]
    subject = SubjectRef("summing:Sum", "Collective", "summing:inputs", "summing:Sum", types="P -> I")
    text = whole_script(PlannedTest(test, subject, 2, True, test.cases[0]), 60.0)
    path.write_text(text)
    status, said = script(path)
    assert status == 1, said
    assert "2 times the expected one" in said
    status, said = mended.run(text)
    assert (status, "in order" in said) == (0, True), said


def test_a_clause_of_the_engine_runs_out_of_a_script(mended):
    test = next(test for test in TESTS.values() if test.tests_engine and test.clause == "Function.backward.receives")
    status, said = mended.run(whole_script(PlannedTest(test, None, 1, False, test.cases[0]), 60.0))
    assert (status, "in order" in said) == (0, True), said


def test_all_that_scripts_carry_of_the_suite_can_be_imported_from_there(mended):
    """A module that reads its own file, or that finds others by their names alone, cannot."""
    carried: dict[str, str] = {}
    packages: set[str] = set()
    for test in {test.file: test for test in TESTS.values()}.values():
        names: dict[str, dict[str, str]] = {}
        subject = SubjectRef("bugs:Gather", clauses.registry()[test.clause].spec)
        exec(embedded(PlannedTest(test, subject, 1, False, test.cases[0])), names)
        of_the_kit = carried.get("conformance.kit", "")  # each has those public names that its test needs
        carried |= names["SOURCES"]
        carried["conformance.kit"] += f"\n{of_the_kit}"
        packages |= {*names["PACKAGES"]}
    given = f"PACKAGES, SOURCES = {packages!r}, {carried!r}"
    loader = assembled("sources", {"embedded": given})
    tried = f"sys.meta_path.insert(0, Sources())\nfor name in {sorted(carried)!r}:\n    __import__(name)\n"
    status, said = mended.run(loader + tried)
    assert status == 0, said


def test_hostile_words_stay_inside_the_docstring():
    from conformance.report.failures import Failure
    from conformance.reproduce.scripts import Wanted, docstring
    from tests.made_up import GATHER, made, outcome

    hostile = 'ends """\nimport os; os.abort()\n\\"""\x1b[31m \\'
    test = outcome(f"{GATHER}.backward.sum", "fail", message=hostile)
    report = made(test)
    wanted = Wanted(report.subjects[0], report.subjects[0].clauses[0], Failure(test), None, "2.13.0")
    tree = ast.parse(docstring(wanted))
    assert len(tree.body) == 1
    assert "\x1b" not in docstring(wanted)


def test_what_stands_in_for_the_package_in_a_script_has_its_public_names():
    names = set()
    for node in ast.parse(FACE).body:
        if isinstance(node, ast.ImportFrom):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.FunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign):
            names |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    assert names == set(conformance.__all__)
