"""LXT: relevance in place of gradients, by the rules of its documentation."""

from __future__ import annotations

from typing import Any

import torch

from conformance.kit.declared import straight
from conformance.kit.inputs import drawn
from conformance.kit.subject import Subject
from published.packages import bare, enter

bare(enter("lxt"), "lxt")


def _shares(args: tuple[Any, ...], grads: tuple[Any, ...]) -> tuple[Any, ...]:
    """Each summand gets the part of the relevance that it has of the sum."""
    first, second = args[:2]
    share = grads[0] / (first + second + 1e-6)
    return share * first, share * second


def _softmax(args: tuple[Any, ...], grads: tuple[Any, ...]) -> tuple[Any, ...]:
    x, dim = args
    return (x * (grads[0] - torch.softmax(x, dim) * grads[0].sum(-1, keepdim=True)),)


add = Subject("lxt.functional:add2_tensors_fn", inputs=drawn((4, 3), (4, 3)), formula=_shares)
softmax = Subject("lxt.functional:softmax_fn", inputs=drawn((4, 3), -1), formula=_softmax)
normalize = Subject("lxt.functional:normalize_identity_fn", inputs=drawn((4, 3), 2.0, -1, 1e-12), formula=straight)
uniform = Subject(
    "lxt.rules:uniform_rule_fn",
    inputs=drawn(torch.add, (4, 3), (4, 3)),
    formula=lambda args, grads: (None, grads[0] / 2, grads[0] / 2),
)
