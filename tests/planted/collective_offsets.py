"""Planted bugs: collectives that send a tensor's storage from its beginning, ignoring the tensor's offset."""

from __future__ import annotations

from torch.autograd.function import once_differentiable

from tests.correct import collective as right
from tests.correct._collectives import matrix_and_group, summed
from tests.planted.offsets import _from_the_beginning

SPEC = "Collective"


inputs = matrix_and_group


class ReduceOfTheStorage(right.Reduce):
    """Sums what the argument's storage begins with, ignoring its offset.

    Breaks: Collective.forward.any-layout
    """

    TYPES = "P -> I"

    @staticmethod
    def forward(ctx, x, group):
        return summed(_from_the_beginning(x), group)


class GradientOfTheStorage(right.Copy):
    """Sums what the incoming gradient's storage begins with, ignoring its offset.

    Breaks: Collective.backward.any-layout
    """

    TYPES = "I -> R"

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        return summed(_from_the_beginning(grad), ctx.group), None
