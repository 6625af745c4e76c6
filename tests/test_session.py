"""Which tests a run owes on the installed PyTorch."""

from __future__ import annotations

import pytest

from conformance.core import catalog
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
