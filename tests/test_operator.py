"""The specification of torch.library operators: a distribution of its own, made with the public kit alone."""

from __future__ import annotations

import ast
import importlib.metadata
import os
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import torch

from conformance import ConformanceError, Subject, check
from conformance.core import catalog, clauses
from conformance.core.outcomes import BROKEN
from conformance.core.plan import SubjectRef
from conformance.prove import proving
from conformance.prove.mutants import mutants
from conformance.ranks.client import Forkserver
from conformance.run.references import reference_subjects
from tests.outside import OPERATORS, operators, operators_to_prove

PACKAGE = OPERATORS / "operator_spec"
#: What a specification may import of the suite: see docs/guides/write-a-specification.md.
PUBLIC = {"conformance", "conformance.kit"}


PLANTED, CORRECT = operators_to_prove()


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The distribution, as if it had been installed; what was found of others is forgotten."""
    with operators(tmp_path_factory.mktemp("site")) as home:
        yield home


@pytest.fixture(scope="module")
def proof(installed, forkserver):
    return proving._Proof(installed, forkserver)


def broken(proof, subject: SubjectRef, clause: str = "", compiled: bool = True) -> set[str]:
    """The clauses that a subject is found to break: those of operators, and one of the contract."""
    with proof.session([subject]) as session:
        every = [test for test in session.tests if proving.concerns(test) and (compiled or not test.test.compiles)]
        outcomes = session.run([test for test in every if test.is_of_its_spec or test.test.clause == clause])
        return {outcome.clause for outcome in outcomes if outcome.outcome in BROKEN}


@pytest.mark.parametrize("bug", PLANTED, ids=lambda bug: bug.reference.partition(":")[2])
def test_a_planted_operator_breaks_its_clause_and_no_other(proof, bug):
    compiled = bug.breaks == "Operator.compile.fullgraph"  # which takes seconds
    assert broken(proof, proving._subject(bug), bug.breaks, compiled) == {bug.breaks}


@pytest.mark.parametrize("right", CORRECT, ids=lambda right: right.text)
def test_no_right_operator_is_accused(proof, right):
    assert broken(proof, proving._subject(right)) == set()


def test_the_reference_is_right(proof):
    (subject,) = reference_subjects("Operator")
    assert broken(proof, subject) == set()


def test_a_mutant_is_noticed_after_a_test_that_compiles(installed, monkeypatch):
    """Before ranks are forked, what such a test needs is imported: never the package whose mutants are asked about."""
    (subject,) = reference_subjects("Operator")
    mutant = next(one for one in mutants(installed.folder / installed.reference) if "swap Mult" in one.name)
    # An installed specification can be imported before ranks are forked.
    monkeypatch.setenv("PYTHONPATH", str(OPERATORS))
    with Forkserver() as forkserver:
        proof = proving._Proof(installed, forkserver)
        assert broken(proof, subject) == set()
        assert proving._noticed(proof, mutant, [subject])


def test_every_clause_has_a_test_and_a_planted_bug(installed):
    own = {clause.id for clause in clauses.registry("Operator").values() if clause.spec == "Operator"}
    tests = catalog.suite("Operator")[len(catalog.suite()) :]
    assert own == {test.clause for test in tests} == {bug.breaks for bug in PLANTED if bug.breaks in own}


def test_it_imports_the_public_kit_alone():
    nodes = (node for file in PACKAGE.glob("*.py") for node in ast.walk(ast.parse(file.read_text("utf-8"))))
    named = {node.module for node in nodes if isinstance(node, ast.ImportFrom)}
    assert {name for name in named if name.partition(".")[0] == "conformance"} <= PUBLIC


@pytest.mark.usefixtures("installed")
def test_what_is_installed_is_read_once_however_often_a_subject_is_called(monkeypatch):
    subject = Subject(torch.sin, spec="Operator", inputs=[SAMPLE])
    subject(*SAMPLE)
    monkeypatch.setattr(importlib.metadata, "entry_points", None)
    assert torch.equal(subject(*SAMPLE), torch.sin(*SAMPLE))


@torch.library.custom_op("test_operator::kept", mutates_args=())
def kept(x: torch.Tensor) -> torch.Tensor:
    x.neg_()
    return x * 2


kept.register_fake(torch.empty_like)
SAMPLE = (torch.linspace(1, 2, 3, dtype=torch.float64),)


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("operator", [kept, torch.ops.test_operator.kept.default], ids=["definition", "overload"])
def test_check_of_an_operator_uses_it_where_it_isinstalled(operator):
    with pytest.raises(ConformanceError, match="test_operator::kept fails") as raised:
        check(operator, SAMPLE, only="Operator.schema.mutates")
    assert raised.value.report.titled("Operator") == "Operator, autograd-conformance-operator 0.1.0"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert check(torch.sin, SAMPLE, only="Function.forward.deterministic").subjects[0].spec == "Function"


def test_check_of_an_operator_says_how_to_get_it_where_it_is_not(monkeypatch):
    without = [place for place in sys.path if not [*Path(place).glob("autograd_conformance_operator*")]]
    monkeypatch.setattr(sys, "path", without)
    with pytest.warns(UserWarning, match="kept is an operator: pip install autograd-conformance-operator"):
        check(kept, SAMPLE, only="Function.forward.deterministic")
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # once is enough
        check(kept, SAMPLE, only="Function.forward.deterministic")


def test_its_site_states_every_clause(installed, tmp_path):
    paths = os.pathsep.join(sys.path[:2])
    subprocess.run(
        [sys.executable, "-m", "sphinx", "-q", "-W", "-b", "html", str(OPERATORS / "docs"), str(tmp_path)],
        env={**os.environ, "PYTHONPATH": paths}, check=True, timeout=600,
    )  # fmt: skip
    page = (tmp_path / "index.html").read_text("utf-8")
    own = [clause.id for clause in clauses.registry("Operator").values() if clause.spec == "Operator"]
    assert [name for name in own if f'id="clause-{name}"' not in page] == []
    assert installed.page.endswith("/operator/index.html")
