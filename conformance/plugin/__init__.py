"""The pytest plugin. In runs that do not ask for the suite, it only adds its fixtures and a mark."""

from __future__ import annotations

import json
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

import pytest

from conformance.plugin.stash import ASKED_FOR, FOLDERS, SESSION, SUITE

#: A pytest run asks for the suite by naming it, or this plugin.
ASKED = ("conformance.suite", "conformance/suite", "conformance.plugin")


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config, parser: pytest.Parser, args: Sequence[str]) -> None:
    """Called before any conftest is read: add the options of a conformance run, only in runs of the suite."""
    by_name = early_config.known_args_namespace.pyargs
    if not any(name in argument for argument in args for name in ASKED) and not (by_name and _names_a_spec(args)):
        return
    early_config.stash[ASKED_FOR] = True
    from conformance.core.options import pytest_options

    group = parser.getgroup("conformance", "conformance of torch.autograd.Function subclasses")
    for name, option in pytest_options():
        how: dict[str, Any] = {"action": "append" if option.many else "store", "metavar": option.metavar}
        if option.default_on:
            how = {"action": "store_false", "default": None}
        group.addoption(option.pytest, dest=name, help=option.help, **how)


def _names_a_spec(args: Sequence[str]) -> bool:
    """Tell whether a pytest run names a package that registers a specification."""
    from conformance.core.homes import around

    return any(around(argument) for argument in args)


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """Called before collection: report a problem of the request once, not for each module."""
    if session.config.stash.get(ASKED_FOR, False):
        from conformance.plugin.attach import start_session

        start_session(session.config)


def pytest_collect_directory(path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Called for every folder: a package around the tests of a specification is not imported here either."""
    homes = parent.config.stash.get(FOLDERS, ())
    return pytest.Dir.from_parent(parent, path=path) if any(path in (home, *home.parents) for home in homes) else None


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Called for every test file: a module of the suite is read, never imported here."""
    if module_path.parent not in {SUITE, *parent.config.stash.get(FOLDERS, ())}:
        return None
    from conformance.plugin.items import SuiteModule

    return SuiteModule.from_parent(parent, path=module_path)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Called after collection: put the suite's items into the order of the plan, so that worlds are reused."""
    if SESSION in config.stash:
        from conformance.plugin.items import in_order

        done = set(getattr(config, "workerinput", {}).get("conformance_done", ()))
        items[:] = [item for item in in_order(items) if item.nodeid not in done]


def pytest_collection_finish(session: pytest.Session) -> None:
    """Called once the tests are selected, in each worker of pytest-xdist too: ranks find their modules imported."""
    if SESSION in session.config.stash:
        from conformance.plugin.items import planned

        session.config.stash[SESSION].pool.look_ahead(planned(session.items))


def pytest_configure(config: pytest.Config) -> None:
    """Called at start: make the mark known."""
    config.addinivalue_line(
        "markers",
        "ranks(*sizes, backend='gloo', device='cpu', timeout=30.0, simulated=False): "
        "run the test on that many ranks; it takes the fixture world",
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Called for each test function: one test for each world size of its mark."""
    mark = metafunc.definition.get_closest_marker("ranks")
    has_own = "world" in metafunc.fixturenames and not _is_ours(metafunc.definition)
    if mark is not None and not has_own:
        from conformance.plugin.ranks import sizes_of

        sizes = sizes_of(mark, metafunc.definition)
        metafunc.parametrize("world", sizes, indirect=True, ids=[f"ranks{size}" for size in sizes])


def _is_ours(item: Any) -> bool:
    """Tell whether a test's fixture ``world`` is this plugin's, and not its own."""
    definitions = item._fixtureinfo.name2fixturedefs.get("world", ())
    return bool(definitions) and definitions[-1].func.__module__ == __name__


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Called for each test function: the body of one that has ranks runs there."""
    if not _is_ours(pyfuncitem):
        return None
    from conformance.plugin.ranks import Ranks, run_on_ranks

    world = pyfuncitem.funcargs["world"]
    assert isinstance(world, Ranks)
    run_on_ranks(pyfuncitem, world.size)
    return True


@pytest.fixture
def world(request: pytest.FixtureRequest) -> Any:
    """Return the :class:`~conformance.World` of a test that is marked with ``ranks``, on each of its ranks.

    >>> @pytest.mark.ranks(2, 4)
    ... def test_sum(world):
    ...     x = torch.ones(3)
    ...     dist.all_reduce(x)
    ...     assert x.tolist() == [world.size] * 3
    """
    if not hasattr(request, "param"):
        pytest.fail("the fixture world is for tests with ranks: mark this one, as with @pytest.mark.ranks(2)", False)
    from conformance.plugin.ranks import Ranks

    return Ranks(request.param)


@pytest.fixture(scope="session")
def conformance_check() -> Any:
    """Return :func:`conformance.check`, imported when a test first asks for it.

    >>> def test_my_function(conformance_check):
    ...     conformance_check(MyFunction, (torch.randn(3, dtype=torch.float64, requires_grad=True),))
    """
    from conformance.run.check import check

    return check


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Called by pytest-xdist for each worker: hand over the options, and the subjects as they were found."""
    session = node.config.stash.get(SESSION, None)
    if session is not None:
        node.workerinput["conformance_options"] = json.dumps(session.options.to_json())
        node.workerinput["conformance_subjects"] = [subject.to_json() for subject in session.subjects]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: Any) -> Generator[None, Any, Any]:
    """Called after each phase of a test: the call's report carries what every rank said."""
    report = yield
    outcome = getattr(item, "conformance_outcome", None)
    if outcome is not None and call.when == "call":
        # As text: a subject may print lone surrogates, which a worker of pytest-xdist cannot send.
        report.conformance = outcome.to_text()
    return report


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> Generator[None]:
    """Called before pytest prints the failures: those that follow from another one take a line; causes come last."""
    said: list[str] = []
    if SESSION in config.stash:
        from conformance.plugin.causes import fold

        said = fold(terminalreporter)
    yield
    if said:
        from conformance.core.output import shown

        terminalreporter.write_sep("=", "causes")
    for line in said:
        terminalreporter.write_line(shown(line))
