"""norse: surrogate gradients, one of them in the separate form, one drawn at random."""

from __future__ import annotations

from typing import Any

import torch

from conformance.kit.specs import random
from conformance.kit.subject import Subject
from published.packages import bare, enter

bare(enter("norse"), "norse.torch.functional")


_INPUTS = [(random((4, 3), 1), 2.0)]


def _super_spike(args: tuple[Any, ...], grads: tuple[Any, ...]) -> tuple[Any, ...]:
    return (grads[0] / (1 + args[0].abs()).square(),)


def _tanh(args: tuple[Any, ...], grads: tuple[Any, ...]) -> tuple[Any, ...]:
    x, k = args
    return (grads[0] * (1 - torch.tanh(k * x).square()),)


def _circ(args: tuple[Any, ...], grads: tuple[Any, ...]) -> tuple[Any, ...]:
    x, alpha = args
    return (grads[0] * alpha**3 / (x.square() + alpha**2) ** 1.5,)


super_spike = Subject(
    "norse.torch.functional.superspike:SuperSpike", inputs=_INPUTS, gradient="declared", formula=_super_spike
)
heavi_tanh = Subject("norse.torch.functional.threshold:HeaviTanh", inputs=_INPUTS, gradient="declared", formula=_tanh)
heavi_circ = Subject("norse.torch.functional.threshold:HeaviCirc", inputs=_INPUTS, gradient="declared", formula=_circ)
logistic = Subject("norse.torch.functional.threshold:Logistic", inputs=_INPUTS, gradient="declared", formula=_tanh)
