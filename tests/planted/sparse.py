"""Bugs of sparse gradients."""

from __future__ import annotations

import torch

from tests.correct import sparse as right

SPEC = "Function"


class SaysThatItIsCoalesced(right.SparseGradient):
    """Says that no row is in the gradient twice, which holds only while none is looked up twice.

    Breaks: Function.backward.gradient
    """

    @staticmethod
    def inputs():
        yield torch.randn(5, 3, dtype=torch.float64, requires_grad=True), torch.tensor([1, 3, 1])

    @staticmethod
    def backward(ctx, grad):
        gradient, _ = right.SparseGradient.backward(ctx, grad)
        return gradient._coalesced_(True), None


class SparseGradientDoubled(right.SparseInputWithGradient):
    """Returns twice the gradient of a sparse input.

    Breaks: Function.backward.gradient
    """

    inputs = right.SparseInputWithGradient.inputs

    @staticmethod
    def backward(ctx, grad):
        return 2 * right.SparseInputWithGradient.backward(ctx, grad)
