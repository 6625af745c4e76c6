"""TorchAudio: filters with finite and with infinite answers, in plain PyTorch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from conformance.kit.inputs import drawn
from conformance.kit.specs import random
from conformance.kit.subject import Subject
from published.packages import absent, bare, enter

bare(enter("torchaudio"), "torchaudio.functional")
absent("torchaudio._extension", _IS_TORCHAUDIO_EXT_AVAILABLE=False)


def _stable() -> Iterator[tuple[Any, ...]]:
    """The first coefficient is one, as for all normalized ones, and the others are small."""
    for seed, order in ((1, 3), (3, 2)):
        later = 0.3 * random((2, order - 1), seed).detach()
        coefficients = torch.cat((torch.ones(2, 1, dtype=torch.float64), later), 1).requires_grad_()
        yield random((3, 2, 6), seed + 1), coefficients


def _normalized(function: Any, waveform: torch.Tensor, coefficients: torch.Tensor) -> Any:
    """Divide by the first coefficient, as ``lfilter`` does."""
    return function.apply(waveform, coefficients / coefficients[:, :1])


fir = Subject("torchaudio.functional.filtering:DifferentiableFIR", inputs=drawn((3, 2, 6), (2, 3)))
iir = Subject("torchaudio.functional.filtering:DifferentiableIIR", inputs=_stable, call=_normalized)
