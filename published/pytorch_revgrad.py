"""pytorch-revgrad: the gradient is reversed and scaled."""

from __future__ import annotations

from typing import Any

import torch

from conformance.kit.specs import random
from conformance.kit.subject import Subject
from published.packages import enter

enter("pytorch-revgrad")


_INPUTS = [(random((3, 2), 1), torch.tensor(0.5, dtype=torch.float64))]


def _reversed(args: tuple[Any, ...], grads: tuple[Any, ...]) -> tuple[Any, ...]:
    return (-args[1] * grads[0],)


rev_grad = Subject("pytorch_revgrad.functional:RevGrad", inputs=_INPUTS, gradient="declared", formula=_reversed)
