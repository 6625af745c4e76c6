"""Ranks for tests of the runner: what is started once serves the modules that a process tests, one after the other."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from conformance.ranks import client
from conformance.ranks.client import Forkserver
from conformance.ranks.pool import Pool
from conformance.run.kept import kept_forkserver
from tests import warm
from tests.faults.running import shared_pool


@pytest.fixture(scope="session", autouse=True)
def _no_forkserver_imports_torch() -> Iterator[None]:
    """Have those of this process forked from one that has: see ``tests.warm``."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(client, "subprocess", warm.Started(warm.adopted))
        yield


@pytest.fixture(scope="module")
def forkserver() -> Iterator[Forkserver]:
    """The process that ranks are forked from, at rest between two modules as between two calls of check."""
    with kept_forkserver() as forkserver:
        yield forkserver


@pytest.fixture(scope="module")
def pool(forkserver: Forkserver) -> Iterator[Pool]:
    """A pool whose ranks find the hostile subjects."""
    with shared_pool(forkserver) as pool:
        yield pool
