"""Published classes at hand: those the specification was written from are installed and judged in every run.

Whatever is installed can be loaded; that is asked last, and here, so that it never depends on when another file's tests
installed something.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from conformance.core.plan import SubjectRef
from conformance.ranks.first_look import preflight
from conformance.ranks.pool import Pool
from conformance.ranks.settings import Settings
from published.packages import Unreachable, install, package
from published.result import Row, rows
from published.run import judged
from published.table import Entry, entries
from tests.test_published import ENTRIES, RESULTS

DOCUMENTED = (
    ("torchlogix", "grad_factor", "GradFactor"),
    ("towhee.models", "all_gather", "AllGather"),
    ("megatron-core", "make_viewless", "MakeViewlessTensor"),
)


@pytest.fixture(params=DOCUMENTED, ids=lambda documented: documented[2])
def documented(request: pytest.FixtureRequest) -> Entry:
    """One of the classes, its package installed."""
    key, name, spec = request.param
    try:
        install(package(key))
    except Unreachable as error:
        pytest.skip(f"{error}; connect to a package index, or put it into {package(key).folder}")
    (entry,) = (found for found in entries((package(key),)) if found.name == name)
    assert entry.spec == spec
    return entry


def test_a_documented_class_keeps_the_spec_that_was_written_from_it(documented: Entry):
    (recorded,) = (row for row in Row.read(RESULTS) if row.reference == documented.reference)
    (found,) = judged(documented.package, (documented,), (1, 2), 60, "cpu", "")
    (row,) = rows(found)
    assert row.verdict in {"conforms", "deviates"}, row.findings
    assert row.summary == recorded.summary


@pytest.fixture(scope="module")
def pool(forkserver):
    with Pool(forkserver, Settings(path=(str(Path.cwd()),), timeout=60)) as ranks:
        yield ranks


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.reference.partition("published.")[2])
def test_a_subject_whose_package_is_installed_can_be_loaded(entry: Entry, pool: Pool):
    if not entry.package.installed:
        pytest.skip(f"python -m published {entry.package.key} installs it")
    assert preflight(pool, SubjectRef(entry.reference, ""))[:2] == ("pass", entry.spec)
