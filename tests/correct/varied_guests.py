"""Correct Functions that modify and return only what they may: what is marked, copied or passed for that."""

from __future__ import annotations

import torch
from torch.autograd import Function

from tests.samples import of_shapes

SPEC = "Function"

_DOUBLE = torch.float64


class NormalizesOnDemand(Function):
    """Computes the sine, of twice the input if a flag is set."""

    inputs = of_shapes((3, 4), others=(False,))

    @staticmethod
    def forward(ctx, x, doubled):
        ctx.factor = 2.0 if doubled else 1.0
        ctx.save_for_backward(x)
        return (ctx.factor * x).sin()

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return ctx.factor * grad * (ctx.factor * x).cos(), None


class InPlaceAndMarkedOnDemand(Function):
    """Doubles its input in place if a flag is set, and marks it."""

    inputs = of_shapes((3, 4), others=(False,))

    @staticmethod
    def forward(ctx, x, inplace):
        if inplace:
            ctx.mark_dirty(x)
        return x.mul_(2) if inplace else 2 * x

    @staticmethod
    def backward(ctx, grad):
        return 2 * grad, None


class Clamped(Function):
    """Clamps a copy of its input, at limits that the sample does not reach."""

    inputs = of_shapes((3, 4))

    @staticmethod
    def forward(ctx, x):
        inside = x.clamp(-100, 100)
        ctx.save_for_backward(x)
        return inside.sin()

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * x.clamp(-100, 100).cos() * (x.abs() <= 100)


class WritesIntoACopyOfTheGradient(Function):
    """Works in place on a copy of the incoming gradient if a flag is set."""

    inputs = of_shapes((3, 4), others=(False,))

    @staticmethod
    def forward(ctx, x, inplace):
        ctx.save_for_backward(x)
        ctx.inplace = inplace
        return x.exp() if inplace else x.sin()

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad.clone().mul_(x.exp()) if ctx.inplace else grad * x.cos(), None


class WeightsInAList(Function):
    """Multiplies by constants in a list, read in reverse without changing the list."""

    @staticmethod
    def inputs():
        yield (
            torch.randn(3, dtype=_DOUBLE, requires_grad=True),
            [torch.tensor([1.0, 2.0, 3.0]).double(), torch.tensor(0.5).double()],
        )

    @staticmethod
    def forward(ctx, x, weights):
        for weight in reversed(weights):
            x = x * weight
        ctx.save_for_backward(*weights)
        return x

    @staticmethod
    def backward(ctx, grad):
        first, second = ctx.saved_tensors
        return grad * first * second, None


class OptionsInADict(Function):
    """Pops options from a copy of the dict."""

    @staticmethod
    def inputs():
        yield torch.randn(3, dtype=_DOUBLE, requires_grad=True), {"scale": 2.0, "shift": 1.0}

    @staticmethod
    def forward(ctx, x, options):
        options = dict(options)
        ctx.scale = options.pop("scale", 1.0)
        return ctx.scale * x + options.pop("shift", 0.0)

    @staticmethod
    def backward(ctx, grad):
        return ctx.scale * grad, None


class FillsTheCallersList(OptionsInADict):
    """Appends to a list that its caller passes for that."""

    @staticmethod
    def inputs():
        yield torch.randn(3, dtype=_DOUBLE, requires_grad=True), []

    @staticmethod
    def forward(ctx, x, seen):
        seen.append(float(x.sum()))
        return 2 * x

    @staticmethod
    def backward(ctx, grad):
        return 2 * grad, None


class ScalarProduct(Function):
    """Multiplies two vectors; the gradients are the other input times a number, in new memory."""

    inputs = of_shapes((5,), (5,))

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x @ w

    @staticmethod
    def backward(ctx, grad):
        x, w = ctx.saved_tensors
        return grad * w, grad * x


class ReluOnDemand(Function):
    """Squares if a flag is set, and copies its input otherwise."""

    inputs = of_shapes((3, 4), others=(True,))

    @staticmethod
    def forward(ctx, x, squared):
        ctx.save_for_backward(x)
        ctx.squared = squared
        return x * x if squared else x.clone()

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 2 * grad * x if ctx.squared else grad.clone(), None


class RefusesOneWord(Function):
    """Refuses unknown strings in forward."""

    inputs = of_shapes((3, 4), others=("sine",))

    @staticmethod
    def forward(ctx, x, kind):
        if kind not in ("sine", "exponential"):
            raise ValueError(f"kind has to be 'sine' or 'exponential', not {kind!r}")
        ctx.save_for_backward(x)
        ctx.kind = kind
        return x.sin() if kind == "sine" else x.exp()

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * (x.cos() if ctx.kind == "sine" else x.exp()), None


class SaysThatThereIsNone(RefusesOneWord):
    """Refuses in backward the string for which it has no gradient."""

    inputs = RefusesOneWord.inputs

    @staticmethod
    def backward(ctx, grad):
        if ctx.kind == "exponential":
            raise ValueError("no gradient of the exponential")
        return RefusesOneWord.backward(ctx, grad)


class MinimumOfAList(Function):
    """Adds the constants of a list to its input, and reads the smallest from a sorted copy."""

    @staticmethod
    def inputs():
        yield torch.randn(3, dtype=_DOUBLE, requires_grad=True), [2.0, 0.5, 1.0]

    @staticmethod
    def forward(ctx, x, numbers):
        ctx.factor = sorted(numbers)[0]
        return ctx.factor * x + sum(numbers)

    @staticmethod
    def backward(ctx, grad):
        return ctx.factor * grad, None


class AsksCtxWhatItHas(RefusesOneWord):
    """Refuses the other string, for which ctx has no attribute, by an error of its own."""

    inputs = RefusesOneWord.inputs

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        if getattr(ctx, "table", None) is None and ctx.kind != "sine":
            raise NotImplementedError("no gradient but of the sine")
        return grad * x.cos(), None


class RefusesByAnAttributeError(RefusesOneWord):
    """Refuses the other string by an AttributeError."""

    inputs = RefusesOneWord.inputs

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        if ctx.kind != "sine":
            raise AttributeError("only the sine has a gradient here")
        return grad * x.cos(), None


class TriesWhatCtxHas(RefusesOneWord):
    """Reads an attribute of ctx that exists for one string only, and computes it otherwise."""

    inputs = RefusesOneWord.inputs

    @staticmethod
    def forward(ctx, x, kind):
        ctx.save_for_backward(x)
        ctx.kind = kind
        if kind == "sine":
            ctx.shape = x.shape
        return x.sin() if kind == "sine" else x.exp()

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        try:
            shape = ctx.shape
        except AttributeError:
            shape = x.shape
        return (grad * (x.cos() if ctx.kind == "sine" else x.exp())).reshape(shape), None
