"""The session of a pytest run."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from conformance.core.errors import BROKE, RunnerError, UsageError
from conformance.core.homes import Home, around, homes
from conformance.core.options import RunOptions, pytest_options
from conformance.core.output import shown
from conformance.core.plan import SubjectRef
from conformance.plugin.stash import FOLDERS, SESSION, SUITE
from conformance.run.session import Session


def start_session(config: pytest.Config) -> None:
    """Make the session and plan its tests; a request that cannot be carried out ends the run with one line."""
    try:
        session = session_of(config)
        session.plan()
        own = homes(session.specs)
        config.stash[FOLDERS] = tuple(home.folder for home in own)
        config.args = _with_folders(config.args, own)
    except UsageError as error:
        raise pytest.UsageError(shown(str(error))) from None
    except RunnerError as error:
        pytest.exit(shown(str(error)), returncode=BROKE)


def _with_folders(args: Sequence[str], own: Sequence[Home]) -> list[str]:
    """Return what to collect: the arguments, packages as paths; with the suite, the folders of the specs.

    Given the name of a package, pytest would import the packages around it.
    """
    found = [place for arg in args for place in (_places(arg, own) or [arg])]
    if any(Path(arg).parts[-2:] == SUITE.parts[-2:] or arg == "conformance.suite" for arg in args):
        found += [str(home.folder) for home in own]
    return list(dict.fromkeys(found))


def _places(arg: str, own: Sequence[Home]) -> list[str]:
    """Return the paths for an argument that names the package of a spec, or is in or around it."""
    name, colons, rest = arg.partition("::")
    around = [str(home.folder) for home in own if f"{home.package}.".startswith(f"{name}.")]
    inside = (home for home in own if name.startswith(f"{home.package}."))
    return around or [f"{home.folder / name.rpartition('.')[2]}.py{colons}{rest}" for home in inside]


def session_of(config: pytest.Config) -> Session:
    """Return the session of a pytest run, made when the suite is first collected.

    Raises:
        UsageError: an option cannot be used.
    """
    if SESSION not in config.stash:
        config.stash[SESSION] = _new_session(config)
        config.add_cleanup(config.stash[SESSION].close)  # no process outlives the run
    return config.stash[SESSION]


def _new_session(config: pytest.Config) -> Session:
    handed = getattr(config, "workerinput", {})
    if "conformance_options" in handed:  # in a worker of pytest-xdist, whose controller has imported the subjects
        subjects = [SubjectRef.from_json(data) for data in handed["conformance_subjects"]]
        return Session(RunOptions.from_json(json.loads(handed["conformance_options"])), subjects=subjects)
    options = RunOptions.from_text({name: config.getoption(name, None) for name, _ in pytest_options()})
    named = sorted({spec for arg in config.args for spec in around(arg)}) if config.option.pyargs else []
    if options.spec is None and named:
        if len(named) > 1:
            raise UsageError(f"{' '.join(config.args)} has the specs {', '.join(named)}: name one with --spec")
        options = replace(options, spec=named[0])
    return Session(options)
