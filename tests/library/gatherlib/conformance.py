"""What ``conformance run --from gatherlib`` tests."""

from __future__ import annotations

import torch

from conformance import Subject
from gatherlib import Gather, Scale


def inputs():
    """Two calls of Scale."""
    yield torch.randn(3, dtype=torch.float64, requires_grad=True), 0.5
    yield torch.randn(2, 2, dtype=torch.float64, requires_grad=True), -1.0


# The suite's gather gives a tuple and takes no group; this one stacks, and takes one first.
gather = Subject(
    Gather,
    spec="AllGatherGradAutograd",
    call=lambda function, x: tuple(function.apply(None, x)),
    name="gatherlib:Gather",
)
scale = Subject(Scale, inputs=inputs, formula=lambda args, grads: (grads[0] * args[1], None), name="gatherlib:Scale")
