"""A failure that is gone where every collective ends at once: work that nobody waits for is to blame, and told once."""

from __future__ import annotations

import pytest
import torch

from conformance import GROUP, ConformanceError, check
from conformance.core.outcomes import LEFT_BEHIND
from conformance.kit.world import JUDGED, World
from conformance.ranks.pool import Pool
from tests.faults.running import run
from tests.planted import collective_unwaited as bugs


def test_work_that_nobody_waits_for_is_named_as_the_cause(pool: Pool) -> None:
    failed = run(pool, "odd:LeavesBehind", "test_fault", 2)
    assert (failed.outcome, failed.likely) == ("fail", LEFT_BEHIND)
    assert " -k " in failed.reproduce


@pytest.mark.parametrize("subject", ["odd:Doubles", "odd:WrongAtFirst"])
def test_nothing_else_is_put_down_to_it(pool: Pool, subject: str) -> None:
    failed = run(pool, subject, "test_fault", 2)
    assert (failed.outcome, failed.likely == LEFT_BEHIND) == ("fail", False)


def test_all_that_comes_of_it_is_one_accusation() -> None:
    x = torch.randn(6, 2, dtype=torch.float64, requires_grad=True)
    with pytest.raises(ConformanceError) as error:
        check(bugs.SumNobodyWaitsFor, (x, GROUP), spec="Collective", types="P -> I", ranks=2, simulated=True)
    clauses = {clause.id: clause for clause in error.value.report.subjects[0].clauses}
    assert [name for name, clause in clauses.items() if clause.broken] == ["Collective.forward.types"]
    late = clauses["Collective.forward.complete"]
    assert (late.verdict, late.reason) == ("consequence", "Collective.forward.types")


def test_what_was_seen_before_is_forgotten_for_a_while() -> None:
    world = World()
    world.known.update({"claims": 1, ("group", (0, 1)): 2})
    with world.forgetting():
        assert world.known == {("group", (0, 1)): 2}
        world.known.update({"claims": 3, ("group", (0,)): 4, JUDGED: []})
    assert world.known == {"claims": 1, ("group", (0, 1)): 2, ("group", (0,)): 4, JUDGED: []}
