"""The classes that the specification was written from: installed, pinned, and judged in every run of the tests."""

from __future__ import annotations

import pytest

from published.packages import Unreachable, install, package
from published.result import Row, rows
from published.run import judged
from published.table import Entry, entries
from tests.test_published import RESULTS

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
    (found,) = judged(documented.package, (documented,), (1, 2), 60)
    (row,) = rows(found)
    assert row.verdict in {"conforms", "deviates"}, row.findings
    assert row.summary == recorded.summary
