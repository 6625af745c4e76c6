"""The session of a pytest run."""

from __future__ import annotations

import json

import pytest

from conformance.core.errors import BROKE, RunnerError, UsageError
from conformance.core.options import RunOptions, pytest_options
from conformance.core.output import shown
from conformance.core.plan import SubjectRef
from conformance.plugin.stash import SESSION
from conformance.run.session import Session


def start_session(config: pytest.Config) -> None:
    """Make the session and plan its tests; a request that cannot be carried out ends the run with one line."""
    try:
        session_of(config).plan()
    except UsageError as error:
        raise pytest.UsageError(shown(str(error))) from None
    except RunnerError as error:
        pytest.exit(shown(str(error)), returncode=BROKE)


def session_of(config: pytest.Config) -> Session:
    """The session of a pytest run, made when the suite is first collected.

    Raises:
        UsageError: an option cannot be used.
    """
    if SESSION not in config.stash:
        config.stash[SESSION] = _new_session(config)
        config.add_cleanup(config.stash[SESSION].close)  # no process outlives the run
    return config.stash[SESSION]


def _new_session(config: pytest.Config) -> Session:
    handed = getattr(config, "workerinput", {})
    if "conformance_options" in handed:  # in a worker of pytest-xdist, whose controller has looked at the subjects
        subjects = [SubjectRef.from_json(data) for data in handed["conformance_subjects"]]
        return Session(RunOptions.from_json(json.loads(handed["conformance_options"])), subjects=subjects)
    return Session(RunOptions.from_text({name: config.getoption(name, None) for name, _ in pytest_options()}))
