"""Correct collectives that declare their types only in the ``spmd_typecheck`` of spmd_types."""

from __future__ import annotations

from torch.autograd import Function

from tests.correct import collective as untyped
from tests.correct._collectives import matrix_and_group

SPEC = "Collective"


inputs = matrix_and_group


class GatherForOneLoss(Function):
    """Gathers for code that is the same on every rank; its hook declares the types."""

    forward = untyped.GatherForOneLoss.forward
    backward = untyped.GatherForOneLoss.backward

    @staticmethod
    def spmd_typecheck(*, x, group):
        from spmd_types import I, S, rules

        return rules.all_gather(x, group, src=S(0), dst=I)


class Scaled(Function):
    """Doubles a tensor of any type, which its hook passes on; communicates nothing."""

    @staticmethod
    def forward(ctx, x, group):
        return 2 * x

    @staticmethod
    def backward(ctx, grad):
        return 2 * grad, None

    @staticmethod
    def spmd_typecheck(*, x, group):
        return x
