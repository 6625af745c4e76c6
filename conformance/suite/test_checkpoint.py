"""A Function inside a checkpoint: forward runs again before backward, and the gradients stay the same."""

from __future__ import annotations

import inspect
from functools import partial

import torch
from torch.utils.checkpoint import checkpoint

from conformance.kit import Probe, clause, need
from conformance.kit.variations.ways import by_way_of, need_repeatable


@clause("Function.checkpoint.agrees")
def test_gradients_are_the_same_under_checkpoint(probe: Probe) -> None:
    """If forward runs again in backward, gradients are the same, or an error is raised."""
    need_repeatable(probe.sample, probe.world)
    is_looked_into = set(probe.sample.active) <= probe.sample.top and isinstance(probe.run.result, torch.Tensor | tuple)
    need(is_looked_into, "a reentrant checkpoint does not look into containers")
    # The other kind, and the wrapper of both, import the compiler, which takes seconds.
    inside = by_way_of(probe.sample, partial(inspect.unwrap(checkpoint), use_reentrant=True))
    given = probe.cotangents
    actual = probe.unless_refused("it raises an error under checkpoint", lambda: inside.run().gradients(given))
    probe.expect_gradients(actual, "in a reentrant checkpoint")
