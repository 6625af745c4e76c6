"""torch-struct: sums of semirings whose gradients are samples or sparse marginals."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from conformance.kit.inputs import drawn
from conformance.kit.specs import random
from conformance.kit.subject import Subject
from published.packages import bare, enter

bare(enter("torch-struct"), "torch_struct.semirings")


_MARGINALS = [(random((3, 4), 1).softmax(-1).detach().requires_grad_(), torch.tensor(-1))]


def _sampled(args: tuple[Any, ...], grads: tuple[Any, ...]) -> tuple[Any, ...]:
    """The gradient goes to one entry of each row, which is drawn."""
    rows = args[0].softmax(-1)
    one = F.one_hot(torch.multinomial(rows, 1, replacement=True).squeeze(1), rows.shape[-1]).to(rows)
    return (grads[0].unsqueeze(-1) * one,)


def _sparsemax(args: tuple[Any, ...], grads: tuple[Any, ...]) -> tuple[Any, ...]:
    support = args[0] > 0
    mean = (grads[0] * support).sum(-1, keepdim=True) / support.sum(-1, keepdim=True)
    return ((grads[0] - mean) * support,)


projected = Subject("torch_struct.semirings.sparse_max:_SimplexProject", inputs=drawn((3, 4), -1))
support = Subject("torch_struct.semirings.sparse_max:_SparseMaxGrad", inputs=_MARGINALS, formula=_sparsemax)
sampled = Subject("torch_struct.semirings.sample:_SampledLogSumExp", inputs=drawn((3, 4), -1), formula=_sampled)
