"""Wrong gradients that are far smaller than another one."""

from __future__ import annotations

from torch.autograd.function import once_differentiable

from tests.correct import small_parts as right

SPEC = "Function"


class HalfOfASmallLoss(right.AuxiliaryLoss):
    """Returns half the gradient of the auxiliary loss.

    Breaks: Function.backward.gradient
    """

    inputs = right.AuxiliaryLoss.inputs

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        main, auxiliary = right.AuxiliaryLoss.backward(ctx, grad)
        return main, auxiliary / 2


class SmallOutputATenthOff(right.OutputsOfTwoSizes):
    """Returns a gradient of the small output that is too large by a tenth.

    Breaks: Function.backward.gradient
    """

    inputs = right.OutputsOfTwoSizes.inputs

    @staticmethod
    def backward(ctx, small, large):
        return right.OutputsOfTwoSizes.backward(ctx, 1.1 * small, large)
