"""Bugs of backward where a Function has several outputs and not all are used."""

from __future__ import annotations

import torch
from torch.autograd import Function

from tests.samples import of_shapes

SPEC = "Function"

inputs = of_shapes((4,))


class _Parts(Function):
    """Two outputs of one input; right in every respect."""

    @staticmethod
    def forward(ctx, x):
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(x)
        return x.sin(), x.exp()

    @staticmethod
    def backward(ctx, first, second):
        (x,) = ctx.saved_tensors
        result = torch.zeros_like(x)
        if first is not None:
            result = result + first * x.cos()
        if second is not None:
            result = result + second * x.exp()
        return result


class NoneNotExpected(_Parts):
    """Asks for None in place of zeros, and cannot deal with it.

    Breaks: Function.backward.unused-output
    """

    @staticmethod
    def backward(ctx, first, second):
        (x,) = ctx.saved_tensors
        return first * x.cos() + second * x.exp()


class NothingWithoutBoth(_Parts):
    """Gives no gradient unless both outputs are used.

    Breaks: Function.backward.unused-output
    """

    @staticmethod
    def backward(ctx, first, second):
        if first is None or second is None:
            return None
        return _Parts.backward(ctx, first, second)


class OnesForTheUnused(_Parts):
    """Takes a missing gradient for ones.

    Breaks: Function.backward.unused-output
    """

    @staticmethod
    def backward(ctx, first, second):
        return _Parts.backward(
            ctx,
            torch.ones_like(second) if first is None else first,
            torch.ones_like(first) if second is None else second,
        )
