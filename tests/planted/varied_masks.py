"""Bugs that show with another mask, another order or another index than that of the sample."""

from __future__ import annotations

import torch

from tests.correct import varied_masks as right

SPEC = "Function"


class LastOfTwoPicked(right.PicksAnyRow):
    """Writes the gradients of picked rows where it ought to add them: one is lost where a row is picked twice.

    ``twice`` says that rows may come twice, as they do not in the sample.

    Breaks: Function.backward.gradient
    """

    @staticmethod
    def inputs():
        yield torch.randn(5, 2, dtype=torch.float64, requires_grad=True), torch.tensor([1, 3, 0]), False

    @staticmethod
    def forward(ctx, x, index, twice):
        index = torch.cat([index, index]) if twice else index
        return right.PicksAnyRow.forward(ctx, x, index)

    @staticmethod
    def backward(ctx, grad):
        (index,) = ctx.saved_tensors
        gradient = grad.new_zeros(ctx.rows, *grad.shape[1:])
        gradient[index] = grad
        return gradient, None, None
