"""Bugs in what jvp does to the tangents that it receives, and in the tangents that it returns."""

from __future__ import annotations

import torch
from torch.autograd import Function

SPEC = "Function"


def inputs():
    generator = torch.Generator().manual_seed(15)
    yield (torch.randn(2, 3, dtype=torch.float64, generator=generator).requires_grad_(),)


class _Triple(Function):
    """Triples; correct. The bugs below each change its jvp."""

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
    """Works in place on the tangent in jvp.

    Breaks: Function.jvp.tangents-untouched
    """

    @staticmethod
    def jvp(ctx, tangent):
        return tangent.mul_(3)


class TangentTripledInPlaceInSinglePrecision(_Triple):
    """Works in place on the tangent, which ``float()`` copies unless it is float32 already.

    Breaks: Function.jvp.tangents-untouched
    """

    @staticmethod
    def jvp(ctx, tangent):
        return tangent.float().mul_(3).to(tangent.dtype)


class ComplexTangent(_Triple):
    """Returns a complex tangent for a real output.

    Breaks: Function.jvp.dtype
    """

    @staticmethod
    def jvp(ctx, tangent):
        return torch.complex(3 * tangent, torch.zeros_like(tangent))


class TangentInSinglePrecision(_Triple):
    """Returns the tangent in single precision, whatever its dtype.

    Breaks: Function.jvp.dtype
    """

    @staticmethod
    def jvp(ctx, tangent):
        return 3 * tangent.float()


class InputCleared(_Triple):
    """Overwrites the saved input with zeros in jvp.

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
    """Keeps the tangent on ctx in jvp.

    Breaks: Function.forward.no-tensor-on-ctx
    """

    @staticmethod
    def jvp(ctx, tangent):
        ctx.tangent = tangent
        return 3 * tangent


class SeedsTheGenerator(_Triple):
    """Seeds the generator in jvp.

    Breaks: Function.forward.deterministic
    """

    @staticmethod
    def jvp(ctx, tangent):
        torch.manual_seed(0)
        return 3 * tangent
