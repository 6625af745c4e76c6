"""Planted bugs: wrong gradients of Functions that refuse inputs outside their domain."""

from __future__ import annotations

import torch
from torch.autograd.function import once_differentiable

from tests.correct import domains as right

SPEC = "Function"

inputs = right.inputs


class RootWithoutItsHalf(right.Root):
    """Returns twice the gradient; next to zero, steps to one side are refused.

    Breaks: Function.backward.gradient
    """

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        (root,) = ctx.saved_tensors
        return grad / root


class PowerWithoutItsFactor(right.Power):
    """Forgets a factor of 2.2; at the edge of its domain, steps to one side are refused.

    Breaks: Function.backward.gradient
    """

    inputs = right.Power.inputs

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * x**1.2


class MaskedScoresWithoutTwo(right.MaskedScores):
    """Forgets the factor two beside results of minus infinity.

    Breaks: Function.backward.gradient
    """

    inputs = right.MaskedScores.inputs

    @staticmethod
    def backward(ctx, grad):
        x, mask = ctx.saved_tensors
        return torch.where(mask, x * grad, 0.0), None


class MaskedLossWithTheWrongSign(right.MaskedByAddition):
    """Subtracts the gradient of the loss; an element of the other result is infinite.

    Breaks: Function.backward.gradient
    """

    inputs = right.MaskedByAddition.inputs

    @staticmethod
    def backward(ctx, grad, loss_grad):
        (x,) = ctx.saved_tensors
        return grad - 2 * loss_grad * x, grad


class SoftmaxOfMaskedScoresTwice(right.SoftmaxOfMaskedScores):
    """Doubles the gradient of scores, of which one is infinite.

    Breaks: Function.backward.gradient
    """

    inputs = right.SoftmaxOfMaskedScores.inputs

    @staticmethod
    def backward(ctx, grad):
        return 2 * right.SoftmaxOfMaskedScores.backward(ctx, grad)


class MaskedScoresTwiceInBatches(right.MaskedScoresInBatches):
    """Doubles the scores of a batch, of which some are minus infinity.

    Breaks: Function.vmap.batched
    """

    inputs = right.MaskedScoresInBatches.inputs

    @classmethod
    def vmap(cls, info, in_dims, *given):
        batches, place = super().vmap(info, in_dims, *given)
        return 2 * batches, place


def _where_transposed(ctx, grad, factor):
    """The gradients, that of weights times a factor if they are transposed in memory."""
    found, of_weights = right.WeightedRoots.backward(ctx, grad)
    weights = ctx.saved_tensors[1]
    is_transposed = weights.shape == (3, 4) and weights.stride() == (1, 3)
    return found, factor * of_weights if is_transposed else of_weights


class WeightsTwiceWhereTransposed(right.WeightedRoots):
    """Doubles the gradient of weights that are transposed in memory, beside one that is infinite at a zero.

    Breaks: Function.backward.gradient
    """

    inputs = right.WeightedRoots.inputs

    @staticmethod
    def backward(ctx, grad):
        return _where_transposed(ctx, grad, 2)


class WeightsLostWhereTransposed(right.WeightedRoots):
    """Returns NaN for weights that are transposed in memory.

    Breaks: Function.backward.gradient
    """

    inputs = right.WeightedRoots.inputs

    @staticmethod
    def backward(ctx, grad):
        return _where_transposed(ctx, grad, torch.nan)
