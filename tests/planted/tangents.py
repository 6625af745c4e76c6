"""Bugs in what jvp does to the tangents that it gets, and in the tangents that it returns."""

from __future__ import annotations

import torch
from torch.autograd import Function

SPEC = "Function"


def inputs():
    generator = torch.Generator().manual_seed(15)
    yield (torch.randn(2, 3, dtype=torch.float64, generator=generator).requires_grad_(),)


class _Triple(Function):
    """No bug yet: ``3 * x``; the bugs below each change its jvp."""

    @staticmethod
    def forward(x):
        return 3 * x

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, grad):
        return 3 * grad

    @staticmethod
    def jvp(ctx, tangent):
        return 3 * tangent


class TangentTripledInPlace(_Triple):
    """jvp works in place on the tangent, which is its caller's.

    Breaks: Function.jvp.tangents-untouched
    """

    @staticmethod
    def jvp(ctx, tangent):
        return tangent.mul_(3)


class TangentTripledInPlaceInSinglePrecision(_Triple):
    """jvp works in place on a copy in single precision, which is no copy if the tangent has that dtype.

    Breaks: Function.jvp.tangents-untouched
    """

    @staticmethod
    def jvp(ctx, tangent):
        return tangent.float().mul_(3).to(tangent.dtype)


class ComplexTangent(_Triple):
    """The tangent of a real output is complex.

    Breaks: Function.jvp.dtype
    """

    @staticmethod
    def jvp(ctx, tangent):
        return torch.complex(3 * tangent, torch.zeros_like(tangent))


class TangentInSinglePrecision(_Triple):
    """jvp computes in single precision and leaves it there.

    Breaks: Function.jvp.dtype
    """

    @staticmethod
    def jvp(ctx, tangent):
        return 3 * tangent.float()


class InputCleared(_Triple):
    """jvp sets the input to zero, which was saved for it.

    Breaks: Function.forward.inputs-untouched
    """

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_forward(*inputs)

    @staticmethod
    def jvp(ctx, tangent):
        ctx.saved_tensors[0].detach().zero_()
        return 3 * tangent


class TangentOnCtx(_Triple):
    """jvp keeps the tangent on ctx.

    Breaks: Function.forward.no-tensor-on-ctx
    """

    @staticmethod
    def jvp(ctx, tangent):
        ctx.tangent = tangent
        return 3 * tangent


class SeedsTheGenerator(_Triple):
    """jvp seeds the random number generator.

    Breaks: Function.forward.deterministic
    """

    @staticmethod
    def jvp(ctx, tangent):
        torch.manual_seed(0)
        return 3 * tangent
