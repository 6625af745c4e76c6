"""A Function inside a checkpoint that runs forward again when backward asks for what was saved."""

from __future__ import annotations

from functools import partial

from torch.utils.checkpoint import checkpoint

from conformance.kit import Probe, clause
from conformance.kit.variations.ways import by_way_of, need_repeatable

#: The kind that PyTorch recommends. It imports the compiler.
WAY = partial(checkpoint, use_reentrant=False)


@clause("Function.checkpoint.agrees")
def test_gradients_are_the_same_where_forward_runs_again_later(probe: Probe) -> None:
    """In a non-reentrant checkpoint gradients are the same, or an error is raised."""
    need_repeatable(probe.sample, probe.world)
    inside = by_way_of(probe.sample, WAY)
    given = probe.cotangents
    actual = probe.unless_refused("it raises an error under checkpoint", lambda: inside.run().gradients(given))
    probe.expect_gradients(actual, "in a checkpoint")
