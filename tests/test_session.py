"""Which tests a run owes on the installed PyTorch."""

from __future__ import annotations

import pytest

from conformance.core import catalog, clauses
from conformance.core.plan import SubjectRef, plan, without_compiler
from conformance.run import session


@pytest.mark.parametrize(("release", "owed"), [("2.12.1+cu130", False), ("2.13.0", True), ("2.15.0", True)])
def test_a_clause_of_a_later_release_is_not_tested(monkeypatch: pytest.MonkeyPatch, release: str, owed: bool) -> None:
    monkeypatch.setattr(session, "version", lambda name: release)
    tests = session.promised_tests()
    assert any(test.clause == "Function.setup_context.keywords" for test in tests) is owed
    assert any(test.clause == "Function.setup_context.defaults" for test in tests)


def test_a_build_that_does_not_say_its_release_is_held_to_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(name: str) -> str:
        raise session.PackageNotFoundError(name)

    monkeypatch.setattr(session, "version", unknown)
    assert session.promised_tests() == catalog.suite()


def test_what_compiles_comes_last_and_on_ranks_of_its_own() -> None:
    subjects = [SubjectRef(f"module:{name}", "Function", label=name) for name in ("One", "Other")]
    compiles = [test.test.compiles for test in plan(catalog.suite(), clauses.registry(), subjects, (1,))]
    assert any(compiles)
    assert compiles == sorted(compiles)
    assert {test.world for test in plan(catalog.suite(), clauses.registry(), subjects, (1,)) if test.test.compiles} == {
        (1, False, True)
    }


def test_what_compiles_is_left_out_where_nobody_asked_for_it() -> None:
    planned = plan(catalog.suite(), clauses.registry(), [SubjectRef("module:One", "Function", label="One")], (1,))
    assert not any(test.left_out for test in without_compiler(planned, compiles=True))
    left = {test.test.clause for test in without_compiler(planned, compiles=False) if test.left_out}
    compiling = {f"Function.compile.{name}" for name in ("agrees", "fullgraph", "methods", "transforms")}
    assert left == {*compiling, "Function.checkpoint.agrees"}
