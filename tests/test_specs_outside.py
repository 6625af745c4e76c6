"""Specifications that other packages bring: found by name, read and never imported, and no burden for anybody else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from conformance.cli.beginning import begin
from conformance.core import catalog, clauses, homes
from conformance.core.errors import UsageError
from conformance.core.homes import find
from conformance.prove import proving
from conformance.prove.mutants import mutants, put
from tests import warm
from tests.outside import install

CLOSED = "GatedSum.forward.closed"
PLANTED = "gated_sum_spec.planted:Multiplied"


def started(site: Path, *words: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return warm.run(
        "-m", *words, cwd=cwd or site, env={**os.environ, "PYTHONPATH": str(site), "PYTHONDONTWRITEBYTECODE": "1"}
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """Where the specification is, beside one that is broken in every way."""
    site = tmp_path_factory.mktemp("site")
    install(site)
    (site / "gated_sum_spec" / "__init__.py").write_text(
        "import sys\nif 'torch' not in sys.modules: raise ImportError('imported where no test runs')\n"
    )
    broken = install(site, "Broken", "broken_spec", "broken-spec")
    (broken.parent / "broken_spec").mkdir()
    for name in ("reference", "spec", "test_broken"):
        (broken.parent / "broken_spec" / f"{name}.py").write_text("def :")
    (broken.parent / "broken_spec" / "__init__.py").write_text("raise SystemExit(3)")
    return site


@pytest.fixture(autouse=True)
def _nothing_is_remembered() -> Iterator[None]:
    """What a process has found once it keeps; here each test has other packages."""
    yield
    for known in (homes._home, clauses._registry, catalog._tests_in_folder, catalog.tests_in, catalog._text):
        known.cache_clear()


@pytest.fixture
def here(site, monkeypatch) -> Path:
    monkeypatch.syspath_prepend(str(site))
    return site


def test_its_clauses_and_tests_are_there_for_who_names_it(here):
    before = clauses.digest()
    assert {*clauses.registry("GatedSum")} - {*clauses.registry()} == {CLOSED}
    own = clauses.registry("GatedSum")[CLOSED]
    assert (own.module, own.sources[0].title) == ("gated_sum_spec.reference", "GatedSum: its documentation")
    (test,) = catalog.suite("GatedSum")[len(catalog.suite()) :]
    assert (test.clause, test.module) == (CLOSED, "gated_sum_spec.test_gated_sum")
    assert clauses.digest() == before != clauses.digest("GatedSum")
    assert not [name for name in sys.modules if name.startswith("gated_sum_spec")]


def test_a_name_that_two_packages_register_is_refused(here, tmp_path, monkeypatch):
    install(tmp_path / "other", distribution="other-spec")
    monkeypatch.syspath_prepend(str(tmp_path / "other"))
    with pytest.raises(UsageError, match="'GatedSum' is registered by gated-sum-spec and other-spec: uninstall"):
        find("GatedSum")


def test_our_own_names_win(tmp_path, monkeypatch):
    install(tmp_path / "site", "GradFactor")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    assert clauses.registry("GradFactor") == clauses.registry()


@pytest.mark.parametrize(
    ("file", "text", "problem"),
    [
        ("spec.py", None, "there is no spec.py in such a package"),
        ("page.toml", "page =", r"page\.toml: "),
        ("page.toml", 'min_suite = "99"', "GatedSum .gated-sum-spec 0.1.0. needs autograd-conformance 99 or newer"),
        ("page.toml", 'min_suite = "new"', "min_suite = 'new' in page.toml is no version"),
        ("reference.py", "def :", r"reference\.py:1: .*unreadable"),
        ("reference.py", "x = 1", "it must hold clauses, and say SPEC = 'GatedSum'"),
        ("test_gated_sum.py", "def :", r"test_gated_sum\.py: unreadable"),
        ("test_gated_sum.py", "def test_it(subject): ...", "test_it names no clause"),
    ],
)
def test_what_is_wrong_with_a_folder_is_said_to_who_names_it(tmp_path, monkeypatch, file, text, problem):
    folder = install(tmp_path / "site")
    (folder / file).unlink()
    if text is not None:
        (folder / file).write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    with pytest.raises(UsageError, match=problem):
        assert [clauses.registry("GatedSum"), catalog.suite("GatedSum")]
    assert CLOSED not in clauses.registry()


def test_a_test_of_no_clause_is_refused(tmp_path):
    folder = install(tmp_path / "site")
    test = folder / "test_gated_sum.py"
    test.write_text(test.read_text().replace(CLOSED, "GatedSum.forward.open"))
    done = started(tmp_path / "site", "conformance", "run", "--spec", "GatedSum", "--no-compile")
    assert (done.returncode, done.stdout) == (4, "")
    assert "asserts 'GatedSum.forward.open', which is no clause" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("words", [("list",), ("explain", "Function.backward.count")])
def test_a_broken_one_beside_it_changes_nothing_for_others(site, tmp_path, words):
    alone, beside = (started(path, "conformance", *words, cwd=tmp_path) for path in (tmp_path, site))
    assert (alone.returncode, alone.stdout, alone.stderr) == (0, beside.stdout, beside.stderr)


def test_what_is_wrong_with_it_is_said_in_one_line(site):
    done = started(site, "conformance", "list", "--spec", "Broken")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (4, "", 1)
    assert "broken_spec/reference.py:1" in done.stderr


def test_a_name_that_nobody_registers_is_compared_with_those_that_are(site):
    done = started(site, "conformance", "run", "--spec", "GatedSumm")
    assert done.returncode == 4
    assert "--spec 'GatedSumm': no such spec; did you mean GatedSum? there are " in done.stderr
    assert "GradFactor" in done.stderr


def test_list_and_explain_know_it_by_its_name(site):
    listed = json.loads(started(site, "conformance", "list", "--json", "--spec", "GatedSum").stdout)
    assert [(clause["id"], clause["tests"]) for clause in listed] == [
        (CLOSED, ["test_gated_sum.py::test_what_a_closed_gate_hides_adds_nothing"])
    ]
    assert "An element whose gate is closed" in started(site, "conformance", "explain", "GatedSum").stdout


def test_a_run_judges_verifies_and_reproduces(site, tmp_path):
    words = [PLANTED, "--spec", "GatedSum", "--no-compile", "-k", "closed", "--report", "out", "--reproduce", "scripts"]
    done = started(site, "conformance", "run", *words, cwd=tmp_path)
    assert done.returncode == 1, done.stdout + done.stderr
    assert f"{PLANTED} (GatedSum, gated-sum-spec 0.1.0)" in " ".join(done.stdout.split())
    assert f"FAIL  {CLOSED}" in done.stdout
    assert f"https://example.org/gated-sum-spec/clauses.html#clause-{CLOSED}" in done.stdout
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert [(spec["name"], spec["distribution"], spec["version"]) for spec in report["specs"]] == [
        ("GatedSum", "gated-sum-spec", "0.1.0")
    ]
    assert report["suite"]["clauses_sha256"] == clauses.digest()
    assert "(GatedSum, gated-sum-spec 0.1.0)" in (tmp_path / "out" / "report.html").read_text()
    checked = started(site, "conformance", "verify", "out/report.json", cwd=tmp_path)
    assert checked.returncode == 0, checked.stdout
    script = min((tmp_path / "scripts").glob("*.py"))
    assert "needs torch and gated_sum_spec and gated-sum-spec" in " ".join(script.read_text().split())
    shown = started(site, script.stem, cwd=script.parent)
    assert (shown.returncode, CLOSED in script.read_text()) == (1, True), shown.stdout + shown.stderr
    missing = started(tmp_path, "conformance", "verify", "out/report.json", cwd=tmp_path)
    assert (missing.returncode, missing.stderr.count("\n")) == (4, 1)
    assert "the report was made with gated-sum-spec 0.1.0: no spec named 'GatedSum'" in missing.stderr


def test_a_changed_clause_shows_in_a_report(site, tmp_path):
    words = ["--spec", "GatedSum", "--no-compile", "-k", "closed", "--report", "out"]
    assert started(site, "conformance", "run", *words, cwd=tmp_path).returncode == 1  # incomplete: -k leaves most out
    changed = install(tmp_path / "site")
    reference = changed / "reference.py"
    reference.write_text(reference.read_text().replace("adds nothing", "adds zero"))
    done = started(tmp_path / "site", "conformance", "verify", "out/report.json", cwd=tmp_path)
    assert done.returncode == 1
    assert "specs: GatedSum has other clauses here than in gated-sum-spec 0.1.0" in done.stdout


@pytest.mark.parametrize(
    ("words", "tests"),
    [
        (("gated_sum_spec",), 3),
        (("gated_sum_spec.test_gated_sum",), 3),
        (
            (
                "conformance.suite",
                "--spec",
                "GatedSum",
                "--no-compile",
                "-k",
                "hides_adds_nothing or one_value_for_each_input",
            ),
            6,
        ),
    ],
)
def test_pytest_collects_it_by_its_package_and_beside_the_suite(site, words, tests):
    done = started(site, "pytest", "--pyargs", *words, "-q", "-p", "no:cacheprovider")
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{tests} passed" in done.stdout


def test_pytest_fails_for_a_planted_bug(site):
    done = started(site, "pytest", "--pyargs", "gated_sum_spec", "-q", "-p", "no:cacheprovider", "--subject", PLANTED)
    assert (done.returncode, f"{CLOSED} (must)" in done.stdout, "3 failed" in done.stdout) == (1, True, True), (
        done.stdout  # how often pytest's summary says it depends on the terminal's width and on CI
    )


CHECK = """
import torch
from conformance import check
from gated_sum_spec.{module} import {name}
print(check({name}, spec="GatedSum", only="GatedSum.forward.closed").titled("GatedSum"))
"""


def test_check_knows_it(site):
    right, wrong = (CHECK.format(module=module, name=name) for module, name in
                    (("correct", "Indexed"), ("planted", "Multiplied")))  # fmt: skip
    done = subprocess.run([sys.executable, "-c", right], env={**os.environ, "PYTHONPATH": str(site)},
                          capture_output=True, text=True, timeout=600, check=False)  # fmt: skip
    assert done.stdout == "GatedSum, gated-sum-spec 0.1.0\n", done.stderr
    done = subprocess.run([sys.executable, "-c", wrong], env={**os.environ, "PYTHONPATH": str(site)},
                          capture_output=True, text=True, timeout=600, check=False)  # fmt: skip
    assert (done.returncode, CLOSED in done.stderr) == (1, True)


@pytest.mark.parametrize(
    ("name", "module"), [("GatedSum", "gated_sum"), ("HTTPGate", "http_gate"), ("Rows2Columns", "rows2_columns")]
)
def test_a_new_specification_has_the_names_of_its_class(tmp_path, name, module):
    assert begin(name, tmp_path) == 0
    home = tmp_path / f"{module.replace('_', '-')}-spec"
    (clause,) = clauses.read(home / f"{module}_spec", f"{module}_spec", "reference.py")
    assert clause.id == f"{name}.forward.closed"
    (test,) = catalog.tests_in(home / f"{module}_spec" / f"test_{module}.py", f"{module}_spec")
    assert test.clause == clause.id
    assert f'{name} = "{module}_spec"' in (home / "pyproject.toml").read_text()
    with pytest.raises(UsageError, match="already"):
        begin(name, tmp_path)


@pytest.mark.parametrize("name", ["", "gated", "Gated-Sum", "Gated.Sum", "../Gated", "True"])
def test_what_is_no_name_of_a_class_begins_nothing(tmp_path, name):
    with pytest.raises(UsageError, match="give the name of a class"):
        begin(name, tmp_path)
    assert not [*tmp_path.iterdir()]


def test_a_bug_that_kills_nothing_and_a_clause_that_nothing_kills_are_problems(tmp_path, monkeypatch, capsys):
    folder = install(tmp_path / "site")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    monkeypatch.setattr(proving, "_mutated", lambda proof: None)
    monkeypatch.setattr(proving, "_accused", lambda proof, right: ())
    (folder / "planted.py").write_text(
        "from gated_sum_spec.reference import GatedSum\n\n\n"
        'class Harmless(GatedSum):\n    """Nothing.\n\n    Breaks: GatedSum.forward.closed\n    """\n'
    )
    assert proving.prove("GatedSum") == 1
    said = capsys.readouterr().out
    assert "problem  gated_sum_spec.planted:Harmless kills nothing: GatedSum.forward.closed holds for it" in said
    assert "problem  no planted bug breaks GatedSum.forward.closed" in said
    (folder / "planted.py").write_text('class Harmless:\n    """Breaks: GatedSum.forward.open"""\n')
    with pytest.raises(UsageError, match=r"planted:Harmless: Breaks: 'GatedSum.forward.open' is no clause"):
        proving.prove("GatedSum")


def test_a_plain_assertion_in_a_test_breaks_the_clause_and_one_in_the_subject_is_an_error(tmp_path):
    """An author writes assert, as in any test; what the subject asserts says nothing of the clause."""
    folder = install(tmp_path / "site")
    test = folder / "test_gated_sum.py"
    lines = test.read_text().split("    expect.equal")
    test.write_text(lines[0] + "    assert actual == 4, 'four'\n")
    words = ["run", "--spec", "GatedSum", "--no-compile", "-k", "hides"]
    assert "FAIL  GatedSum.forward.closed" in started(tmp_path / "site", "conformance", *words).stdout
    reference = folder / "reference.py"
    reference.write_text(
        reference.read_text().replace(
            "return torch.where(gate, x", "assert x.isfinite().all(); return torch.where(gate, x"
        )
    )
    assert "ERROR  GatedSum.forward.closed" in started(tmp_path / "site", "conformance", *words).stdout


@pytest.mark.parametrize(
    ("spec", "subject"), [("GatedSum", "gated_sum_spec.reference"), ("GradFactor", "spec_impl.torchlogix")]
)
def test_a_mutant_finds_all_else_where_it_is(here, tmp_path, spec, subject):
    """Else no mutant survives: a rank fails before it runs a test."""
    home = find(spec)
    put(next(mutants(home.folder / home.reference)), home.package, tmp_path)
    code = f"import sys; from conformance.kit.loading import resolve; r = resolve('{subject}:{spec}', '{spec}', None)\n"
    code += f"print(sys.modules['{subject}'].__file__)"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (tmp_path, here)))}
    done = subprocess.run([sys.executable, "-c", code], env=environment, cwd=tmp_path,
                          capture_output=True, text=True, timeout=600, check=False)  # fmt: skip
    assert done.stdout.startswith(str(tmp_path)), done.stderr


def test_a_mutant_is_held_against_every_form_of_the_reference(monkeypatch):
    asked = []
    monkeypatch.setattr(proving._Proof, "killer", lambda proof, subject, *_, **__: asked.append(subject.reference))
    proving._mutated(proving._Proof(find("GradFactor"), None))
    assert {*asked} == {"spec_impl.torchlogix:GradFactor", "spec_impl.torchlogix:GradFactorSeparate"}
