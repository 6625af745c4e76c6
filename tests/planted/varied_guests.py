"""Bugs that modify or return what belongs to the caller, and show with another flag or size."""

from __future__ import annotations

import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from tests.correct import varied_guests as right
from tests.planted._square import Square
from tests.samples import of_shapes

SPEC = "Function"


class DoublesItsInputOnDemand(right.NormalizesOnDemand):
    """Doubles its input in place if a flag is set, without mark_dirty.

    Breaks: Function.mark_dirty.complete
    """

    inputs = right.NormalizesOnDemand.inputs

    @staticmethod
    def forward(ctx, x, doubled):
        ctx.factor = 2.0 if doubled else 1.0
        ctx.save_for_backward(x.clone())
        return (x.mul_(2) if doubled else x).sin()

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        return right.NormalizesOnDemand.backward(ctx, grad)


class CentresManyRows(Function):
    """Subtracts the mean in place if there are many rows, without mark_dirty.

    Breaks: Function.mark_dirty.complete
    """

    inputs = of_shapes((3, 4))

    @staticmethod
    def forward(ctx, x):
        if len(x) > 64:
            return x.sub_(x.mean(0)).clone()
        return x - x.mean(0)

    @staticmethod
    def backward(ctx, grad):
        return grad - grad.mean(0)


class ClampedInPlace(right.Clamped):
    """Clamps its input in place, at limits that the sample does not reach: only the version counter changes.

    Breaks: Function.mark_dirty.complete
    """

    inputs = right.Clamped.inputs

    @staticmethod
    def forward(ctx, x):
        x.clamp_(-100, 100)
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * x.cos()


class NegatesItsInputInBackward(right.NormalizesOnDemand):
    """Works in place on the saved input in backward, if a flag is set.

    Breaks: Function.forward.inputs-untouched
    """

    inputs = right.NormalizesOnDemand.inputs

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        if ctx.factor == 2.0:
            return 2 * grad * x.mul_(2).cos(), None
        return right.NormalizesOnDemand.backward(ctx, grad)


class OverwritesManyRowsInBackward(Square):
    """Overwrites the saved input with the gradient, if there are many rows.

    Breaks: Function.forward.inputs-untouched
    """

    inputs = of_shapes((3, 4))

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return x.mul_(2 * grad).clone() if len(x) > 64 else 2 * x * grad


class WritesIntoTheGradientOnDemand(right.WritesIntoACopyOfTheGradient):
    """Works in place on the incoming gradient, if a flag is set.

    Breaks: Function.backward.grads-untouched
    """

    inputs = right.WritesIntoACopyOfTheGradient.inputs

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad.mul_(x.exp()).clone() if ctx.inplace else grad * x.cos(), None


class TurnsTheCallersListAround(right.WeightsInAList):
    """Reverses the caller's list.

    Breaks: Function.forward.inputs-untouched
    """

    inputs = right.WeightsInAList.inputs

    @staticmethod
    def forward(ctx, x, weights):
        weights.reverse()
        for weight in weights:
            x = x * weight
        ctx.save_for_backward(*weights)
        return x


class TakesFromTheCallersDict(right.OptionsInADict):
    """Pops options from the caller's dict.

    Breaks: Function.forward.inputs-untouched
    """

    inputs = right.OptionsInADict.inputs

    @staticmethod
    def forward(ctx, x, options):
        ctx.scale = options.pop("scale", 1.0)
        return ctx.scale * x + options.pop("shift", 0.0)


class InputsAsGradients(right.ScalarProduct):
    """Returns the inputs themselves as gradients if the incoming one is 1, as it is for a loss.

    Breaks: Function.forward.inputs-untouched
    """

    inputs = right.ScalarProduct.inputs

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        x, w = ctx.saved_tensors
        return (w, x) if grad == 1 else (grad * w, grad * x)


class DataWhereThereIsNothingToDo(right.ReluOnDemand):
    """Returns the ``data`` of its input if a flag is off: both share memory, unknown to autograd.

    Breaks: Function.forward.inputs-untouched
    """

    inputs = right.ReluOnDemand.inputs

    @staticmethod
    def forward(ctx, x, squared):
        ctx.save_for_backward(x)
        ctx.squared = squared
        return x * x if squared else x.data


def inputs():
    """Yield a sample with a flag that is on."""
    yield torch.randn(3, 4, dtype=torch.float64, requires_grad=True), True


class NameUnknownInOneBranch(right.RefusesOneWord):
    """Uses an undefined name in backward, in the branch of the other string.

    Breaks: Function.backward.any-input
    """

    inputs = right.RefusesOneWord.inputs

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * (x.cos() if ctx.kind == "sine" else exponential(x)), None  # noqa: F821


class NameUnknownForAFlag(right.ReluOnDemand):
    """Uses an undefined name in backward, if a flag is off.

    Breaks: Function.backward.any-input
    """

    inputs = right.ReluOnDemand.inputs

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 2 * grad * x if ctx.squared else gradient * 1.0, None  # noqa: F821


class SortsTheCallersList(right.MinimumOfAList):
    """Sorts the caller's list in place.

    Breaks: Function.forward.inputs-untouched
    """

    inputs = right.MinimumOfAList.inputs

    @staticmethod
    def forward(ctx, x, numbers):
        numbers.sort()
        ctx.factor = numbers[0]
        return ctx.factor * x + sum(numbers)


class EmptiesTheCallersListInBackward(right.MinimumOfAList):
    """Clears the caller's list in backward.

    Breaks: Function.forward.inputs-untouched
    """

    inputs = right.MinimumOfAList.inputs

    @staticmethod
    def forward(ctx, x, numbers):
        ctx.numbers = numbers
        return right.MinimumOfAList.forward(ctx, x, numbers)

    @staticmethod
    def backward(ctx, grad):
        ctx.numbers.clear()
        return right.MinimumOfAList.backward(ctx, grad)


class NotKeptForAFlag(right.ReluOnDemand):
    """Reads an attribute of ctx that forward sets only if a flag is on.

    Breaks: Function.backward.any-input
    """

    inputs = right.ReluOnDemand.inputs

    @staticmethod
    def forward(ctx, x, squared):
        ctx.save_for_backward(x)
        ctx.squared = squared
        if squared:
            ctx.factor = 2
        return x * x if squared else x * 1

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return ctx.factor * grad * (x if ctx.squared else 1), None
