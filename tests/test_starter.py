"""What is imported for ranks to come, and when: no ranks can be forked meanwhile."""

from __future__ import annotations

import pytest

from conformance.core import catalog, clauses
from conformance.core.outcomes import RankOutcome
from conformance.core.plan import SubjectRef, plan
from conformance.ranks.preloads import TRANSFORMS
from conformance.ranks.settings import Settings
from conformance.ranks.starter import Key, Starter


class Noting:
    """A forkserver that notes what it is asked to import, and the ranks that it is asked for."""

    def __init__(self):
        self.events = []

    def preload(self, modules):
        self.events += [("import", name) for name in modules if ("import", name) not in self.events]

    def ranks(self, _, size, backend, device, group, debug):
        self.events.append(("ranks", size))
        return self

    def request(self, message, deadline):
        return [RankOutcome(0, "pass")]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None


@pytest.mark.parametrize("spec", ["AllGather", "Collective", "Function"])
@pytest.mark.parametrize("need", ["transforms", "compiles"])
def test_what_takes_long_is_imported_while_the_last_ranks_run_that_do_without(spec, need):
    planned = plan(catalog.suite(), clauses.registry(), [SubjectRef("a:B", spec)], (1, 2))
    forkserver = Noting()
    starter = Starter(forkserver, forkserver.ranks)
    starter.look_ahead(planned)
    needed = next(item for item in planned if getattr(item.test, need))
    key, knows_transforms = None, False
    for item in planned[: planned.index(needed)]:
        if key != Key(item.subject, *item.world) or (item.test.transforms and not knows_transforms):
            knows_transforms = ("import", TRANSFORMS[0]) in forkserver.events
            starter.start(key := Key(item.subject, *item.world), Settings())
    last = max(at for at, (what, _) in enumerate(forkserver.events) if what == "ranks")
    module = needed.test.module if need == "compiles" else TRANSFORMS[0]
    assert ("import", module) in forkserver.events[last:]
