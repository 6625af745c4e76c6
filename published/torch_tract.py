"""TrAct: layers whose weights get a gradient that stands for a step in activations."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from conformance.kit.inputs import drawn
from conformance.kit.subject import Subject
from published.packages import bare, enter

bare(enter("torch-tract"), "torch_tract")


def _damped(patches: torch.Tensor, rate: float) -> torch.Tensor:
    """What the package multiplies the gradient of the weights with: the inverse of the damped covariance."""
    covariance = patches.T @ patches / patches.shape[0]
    return torch.inverse(covariance + rate * torch.eye(patches.shape[1], dtype=patches.dtype))


def _linear(args: tuple[Any, ...], grads: tuple[Any, ...]) -> tuple[Any, ...]:
    x, weight, _, rate, _ = args
    return grads[0] @ weight, grads[0].T @ x @ _damped(x, rate), grads[0].sum(0)


def _convolution(args: tuple[Any, ...], grads: tuple[Any, ...]) -> tuple[Any, ...]:
    x, weight, bias, stride, padding, rate, _ = args
    with torch.enable_grad():
        leaves = x.detach().requires_grad_(), weight.detach().requires_grad_()
        of_x, of_weight = torch.autograd.grad(F.conv2d(*leaves, bias, stride, padding), leaves, grads[0])
    patches = F.unfold(x, weight.shape[2:], padding=padding, stride=stride).transpose(1, 2).flatten(0, 1)
    stepped = (of_weight.flatten(1) @ _damped(patches, rate)).view_as(of_weight)
    return of_x, stepped, grads[0].sum((0, 2, 3))


linear = Subject(
    "torch_tract.tract:TrActLinearFunction", inputs=drawn((5, 3), (2, 3), (2,), 0.1, "inverse"), formula=_linear
)
few_rows = Subject(
    "torch_tract.tract:TrActLinearFunction", inputs=drawn((2, 4), (3, 4), (3,), 0.1, "inverse"), formula=_linear
)
convolution = Subject(
    "torch_tract.tract:TrActConv2DFunction",
    inputs=drawn((2, 2, 4, 4), (3, 2, 3, 3), (3,), 1, 1, 0.1, "inverse"),
    formula=_convolution,
)
