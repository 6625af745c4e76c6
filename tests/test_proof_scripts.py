"""The proof of the reproduction scripts: what it runs, where, and what it does not let pass."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from conformance.ranks.client import Forkserver
from tests.proof import scripts
from tests.proof.implementations import planted


@pytest.fixture(scope="module")
def template() -> Iterator[Forkserver]:
    template = Forkserver()
    yield template
    template.close()


@pytest.fixture(scope="module")
def alone() -> Iterator[scripts.Alone]:
    with scripts.Alone() as alone:
        yield alone


def shown(name: str, template: Forkserver) -> scripts.Shown:
    (bug,) = (bug for bug in planted() if bug.reference.endswith(f":{name}"))
    wanted = scripts.task(bug)(template)
    assert wanted, f"{name} is not caught"
    (found,) = scripts.shown([(bug, wanted)], lambda _: None)
    return found


def test_the_script_of_a_class_shows_its_bug(template: Forkserver) -> None:
    found = shown("FlagOfTheLastCall", template)
    assert (found.status, found.holds) == (1, True), found.said


def test_the_script_of_a_bug_in_pytorch_shows_it_there_alone(template: Forkserver) -> None:
    bug = next(bug for bug in planted() if bug.engine)
    found = shown(bug.reference.partition(":")[2], template)
    assert (found.status, found.innocent, found.holds) == (1, 0, True), found.said


@pytest.mark.parametrize(
    ("text", "status"),
    [("import conformance", 99), ("raise SystemExit(1)", 1), ("raise SystemExit('no')", 1), ("", 0), ("1 / 0", 99)],
)
def test_a_script_has_torch_and_no_suite(alone: scripts.Alone, text: str, status: int) -> None:
    assert alone.run(text)[0] == status


def test_a_script_that_ends_otherwise_is_a_problem() -> None:
    bug = planted()[0]
    for status, innocent in ((0, 0), (2, 0), (1, 1)):
        assert not scripts.Shown(bug, "test", False, status, "", innocent).holds
