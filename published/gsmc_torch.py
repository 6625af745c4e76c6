"""GSMC: spikes with a capped surrogate gradient, and with the gradient of the time of a spike."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch

from conformance.kit.declared import sloped
from conformance.kit.inputs import drawn
from conformance.kit.specs import random
from conformance.kit.subject import Subject
from published.packages import bare, enter

bare(enter("gsmc-torch"), "gsmc_torch")


def _potentials() -> Iterator[tuple[Any, ...]]:
    thresholds = torch.tensor([0.5, 0.6, 0.7], dtype=torch.float64, requires_grad=True)
    yield random((4, 3), 1).detach().abs().requires_grad_(), thresholds, 1.0, 1.0, False, 0.02, 2.0


def _spike_time(args: tuple[Any, ...], grads: tuple[Any, ...]) -> tuple[Any, ...]:
    x, theta, tau, gamma, *_ = args
    firing = (x >= theta).to(x.dtype)
    flux = (gamma * tau * theta / (x * (x - theta)).abs().clamp_min(1e-2)).clamp(max=gamma)
    of_theta = (grads[0] * gamma * tau / (x - theta).abs().clamp_min(1e-2)).clamp(max=gamma) * firing
    return grads[0] * flux * firing, -of_theta.sum(0)


surrogate = Subject(
    "gsmc_torch.surrogate:ATanSurrogate",
    inputs=drawn((4, 3), 2.0, 0.3),
    formula=sloped(lambda x, alpha, most: (alpha / 2 / (1 + (math.pi / 2 * alpha * x) ** 2)).clamp(max=most)),
)
spike = Subject("gsmc_torch.surrogate:ExactSpike", inputs=_potentials, formula=_spike_time)
