"""Skip comparing two calls if two identical calls already differ."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch

from conformance.kit.calls import SampleCall
from conformance.kit.deviations import Deviation, NotApplicable
from conformance.kit.numerics.gradient_checks import gradients_of
from conformance.kit.variations.variants import farthest
from conformance.kit.world import World

#: Gradients of equal calls that are this far apart, next to their size, are others.
APART = 1e-6
CHANGING = "two equal calls give other gradients, so that nothing can be said of calls that differ"


@contextmanager
def beside_equal_calls(sample: SampleCall, cotangents: Sequence[torch.Tensor], world: World) -> Iterator[None]:
    """Compare the gradients of two calls inside; a difference breaks no clause if equal calls differ too.

    Raises:
        NotApplicable: they differ. Function.forward.deterministic and Function.forward.calls-independent judge that.
    """
    try:
        yield
    except Deviation as deviation:
        if world.size == 1 and _change(sample, list(cotangents)):
            raise NotApplicable(CHANGING) from deviation
        raise


def _change(sample: SampleCall, cotangents: list[torch.Tensor]) -> bool:
    try:
        one, other = (gradients_of(sample, cotangents) for _ in range(2))
    except Exception:  # what was inside has met it as well
        return False
    return farthest(one, other)[0] > APART
