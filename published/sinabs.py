"""Sinabs: spikes with surrogate gradients, and rounding."""

from __future__ import annotations

import torch

from conformance.kit.declared import sloped, straight
from conformance.kit.inputs import drawn
from conformance.kit.subject import Subject
from published.packages import bare, enter

bare(enter("sinabs"), "sinabs.activation")


def _bell(v_mem: torch.Tensor, threshold: float) -> torch.Tensor:
    return torch.exp(-((v_mem - threshold) ** 2))


_SPIKES = drawn((4, 3), 0.5, _bell, dtype=torch.float32)
_BELL = sloped(lambda v_mem, threshold, slope: slope(v_mem, threshold))

quantize = Subject("sinabs.activation.quantize:Quantize", inputs=drawn((4, 3)), formula=straight)
multi_spike = Subject("sinabs.activation.spike_generation:MultiSpike", inputs=_SPIKES, formula=_BELL)
single_spike = Subject("sinabs.activation.spike_generation:SingleSpike", inputs=_SPIKES, formula=_BELL)
