"""The pytest plugin: options, and a collector for the suite. Until then it imports nothing."""

from __future__ import annotations

import json
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from conformance.run.session import Session

SUITE = Path(__file__).parents[1] / "suite"
SESSION = pytest.StashKey["Session"]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Called once at start: the options of a conformance run."""
    group = parser.getgroup("conformance", "conformance of torch.autograd.Function subclasses")
    add = group.addoption
    add("--subject", action="append", default=[], metavar="MODULE:ATTR", help="what to test; may be given again")
    add("--spec", default=None, metavar="NAME", help="the spec to hold subjects against (default: Function)")
    add("--inputs", default=None, metavar="MODULE:CALLABLE", help="yields argument tuples, for spec Function")
    add("--ranks", default="1,2,3,4", metavar="N,N", help="world sizes for clauses that need several ranks")
    add("--backend", default="gloo", metavar="NAME", help="gloo or nccl")
    add("--device", default="cpu", metavar="DEVICE", help="cpu, cuda or cuda:N")
    add("--rank-timeout", default="30", metavar="SECONDS", help="deadline of one test on one rank")
    add("--rank-setup", action="append", default=[], metavar="MODULE:CALLABLE", help="called first on every rank")


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Called for every test file: a module of the suite is read, never imported here."""
    if module_path.parent != SUITE:
        return None
    from conformance.plugin.items import SuiteModule

    return SuiteModule.from_parent(parent, path=module_path)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Called after collection: put the suite's items into the order of the plan, so that worlds are reused."""
    if SESSION in config.stash:
        from conformance.plugin.items import in_order

        done = set(getattr(config, "workerinput", {}).get("conformance_done", ()))
        items[:] = [item for item in in_order(items) if item.nodeid not in done]


def session_of(config: pytest.Config) -> Session:
    """The run that belongs to this pytest run, made when the suite is first collected."""
    if SESSION not in config.stash:
        config.stash[SESSION] = _new_session(config)
        config.add_cleanup(config.stash[SESSION].close)  # no process outlives the run
    return config.stash[SESSION]


def _new_session(config: pytest.Config) -> Session:
    from conformance.core.errors import UsageError
    from conformance.core.options import Options, parse_ranks, parse_timeout
    from conformance.run.session import Session

    option: Any = config.getoption
    try:
        options = Options(
            subjects=tuple(option("--subject")),
            spec=option("--spec"),
            inputs=option("--inputs"),
            ranks=parse_ranks(option("--ranks")),
            backend=option("--backend"),
            device=option("--device"),
            timeout=parse_timeout(option("--rank-timeout")),
            setup=tuple(option("--rank-setup")),
        )
        return Session(options, _known_subjects(config))
    except UsageError as error:
        raise pytest.UsageError(str(error)) from None


def _known_subjects(config: pytest.Config) -> list[Any] | None:
    """In a worker of pytest-xdist: the subjects that the controller has looked at already."""
    handed = getattr(config, "workerinput", {}).get("conformance_subjects")
    if handed is None:
        return None
    from conformance.core.plan import SubjectRef

    return [SubjectRef(*fields) for fields in handed]


@pytest.fixture(scope="session")
def conformance_check() -> Any:
    """:func:`conformance.check`, imported when a test first asks for it.

    >>> def test_my_function(conformance_check):
    ...     conformance_check(MyFunction, (torch.randn(3, dtype=torch.float64, requires_grad=True),))
    """
    from conformance.run.check import check

    return check


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Called by pytest-xdist for each worker: hand over the subjects as they were found."""
    session = node.config.stash.get(SESSION, None)
    if session is not None:
        node.workerinput["conformance_subjects"] = [
            [subject.reference, subject.spec, subject.inputs, subject.label] for subject in session.subjects
        ]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: Any) -> Generator[None, Any, Any]:
    """Called after each phase of a test: the call's report carries what every rank said."""
    report = yield
    outcome = getattr(item, "conformance_outcome", None)
    if outcome is not None and call.when == "call":
        # As text: a worker of pytest-xdist can hand over no lone surrogates, and a subject may print some.
        report.conformance = json.dumps(outcome.to_json())
    return report
