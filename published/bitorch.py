"""Bitorch: binary and few-bit numbers with straight-through and approximated gradients."""

from __future__ import annotations

from typing import Any

import torch

from conformance.kit.specs import random
from conformance.kit.subject import Subject
from published.packages import bare, enter

bare(enter("bitorch"), "bitorch.quantizations")


_ONE = [(random((4, 3), 1),)]
_LEVELS = [(random((4, 3), 1), 3)]
_NUMBER = [(random((4, 3), 1), 0.5)]


def _straight(args: tuple[Any, ...], grads: tuple[Any, ...]) -> tuple[Any, ...]:
    return (grads[0],)


def _near_zero(args: tuple[Any, ...], grads: tuple[Any, ...]) -> tuple[Any, ...]:
    return (grads[0] * (args[0].abs() <= 1),)


def _approximated(args: tuple[Any, ...], grads: tuple[Any, ...]) -> tuple[Any, ...]:
    size = args[0].abs()
    return (grads[0] * (2 - 2 * size) * (size <= 1),)


def _of_swish(args: tuple[Any, ...], grads: tuple[Any, ...]) -> tuple[Any, ...]:
    scaled = args[1] * args[0]
    return (grads[0] * args[1] * (2 - scaled * torch.tanh(scaled / 2)) / (1 + torch.cosh(scaled)),)


approx_sign = Subject(
    "bitorch.quantizations.approx_sign:ApproxSignFunction", inputs=_ONE, gradient="declared", formula=_approximated
)
weight_dorefa = Subject(
    "bitorch.quantizations.dorefa:WeightDoReFaFunction", inputs=_LEVELS, gradient="declared", formula=_straight
)
input_dorefa = Subject(
    "bitorch.quantizations.dorefa:InputDoReFaFunction", inputs=_LEVELS, gradient="declared", formula=_straight
)
progressive_sign = Subject(
    "bitorch.quantizations.progressive_sign:ProgressiveSignFunctionTrain",
    inputs=_NUMBER,
    gradient="declared",
    formula=_straight,
)
sign = Subject("bitorch.quantizations.sign:SignFunction", inputs=_ONE, gradient="declared", formula=_straight)
heaviside = Subject(
    "bitorch.quantizations.ste_heaviside:SteHeavisideFunction", inputs=_ONE, gradient="declared", formula=_near_zero
)
swish_sign = Subject(
    "bitorch.quantizations.swish_sign:SwishSignFunction", inputs=_NUMBER, gradient="declared", formula=_of_swish
)
