"""PyTorchSpiking: spikes forward, the gradient of the activation backward."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from conformance.kit.specs import random
from conformance.kit.subject import Subject
from published.packages import bare, enter

bare(enter("pytorch-spiking"), "pytorch_spiking")


def _with_state() -> Iterator[tuple[Any, ...]]:
    state = torch.rand(2, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    yield random((2, 5, 3), 1), torch.sigmoid, 0.001, state, True, True, True


def _of_activation(args: tuple[Any, ...], grads: tuple[Any, ...]) -> tuple[Any, ...]:
    share = torch.sigmoid(args[0])
    return (grads[0] * share * (1 - share),)


spiking_activation = Subject(
    "pytorch_spiking.functional:SpikingActivation", inputs=_with_state, gradient="declared", formula=_of_activation
)
