"""The gradients of a call by the formula that a subject declares."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from conformance.kit import seeds
from conformance.kit.calls import BACKWARD_SEED, Run
from conformance.kit.deviations import NotApplicable


def declared_gradients(run: Run, cotangents: Sequence[torch.Tensor]) -> dict[int, torch.Tensor]:
    """The gradient of each differentiated argument, zeros where the formula says None.

    The formula draws the same random numbers as the backward, so that a gradient that is random by design can be
    declared as well.

    Raises:
        NotApplicable: no formula is declared.
    """
    sample = run.sample
    formula = sample.subject.formula
    if sample.subject.gradient_kind != "declared" or formula is None:
        raise NotApplicable("no formula is declared: the gradient is judged by differences")
    given = dict(zip(run.places, cotangents, strict=True))
    seeds.seed(BACKWARD_SEED)
    declared = formula(sample.arguments(), tuple(given.get(place) for place in range(len(run.tensors))))
    values = declared if isinstance(declared, tuple | list) else (declared,)
    found = {}
    for at in (at for at in sample.active if at in sample.top):
        index = sample.argument(at)
        value = values[index] if index < len(values) else None
        found[at] = torch.zeros_like(sample.values[at]).detach() if value is None else value
    return found
