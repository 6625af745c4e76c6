"""Planted bugs: collectives whose gradients are wrong in bfloat16, where differences of their own are coarse."""

from __future__ import annotations

from torch.autograd.function import once_differentiable

from tests.correct import collective_half as right

SPEC = "Collective"


inputs = right.inputs


class DoublesInHalfPrecision(right.GathersInAnyDtype):
    """Doubles the gradient in bfloat16, and in no other dtype.

    Breaks: Collective.backward.gradient
    """

    TYPES = "V -> R"
    FACTOR = 2.0


class HalfMoreInHalfPrecision(right.GathersInAnyDtype):
    """Returns one and a half times the gradient in bfloat16, and in no other dtype.

    Breaks: Collective.backward.gradient
    """

    TYPES = "V -> R"
    FACTOR = 1.5


class DoublesHalfAlone(right.GathersHalfAlone):
    """Doubles the gradient; its kernel takes bfloat16 alone.

    Breaks: Collective.backward.gradient
    """

    TYPES = "V -> R"
    FACTOR = 2.0


class TenthMoreHalfAlone(right.GathersHalfAlone):
    """Returns 1.1 times the gradient; its kernel takes bfloat16 alone.

    Breaks: Collective.backward.gradient
    """

    TYPES = "V -> R"
    FACTOR = 1.1


class ForgetsTheSquare(right.SumsSquaresOfHalfAlone):
    """Leaves out the factor of a square; its kernel takes bfloat16 alone.

    Breaks: Collective.backward.gradient
    """

    TYPES = "V -> I"
    FACTOR = 1.0


class SwapsRowsHalfAlone(right.GathersHalfAlone):
    """Returns the gradient of the rows in another order; its kernel takes bfloat16 alone.

    Breaks: Collective.backward.gradient
    """

    TYPES = "V -> R"

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        return right.GathersHalfAlone.backward(ctx, grad)[0].flip(0), None
