"""Bugs of backward if a Function has several outputs and not all of them are used."""

from __future__ import annotations

import torch
from torch.autograd import Function

from tests.samples import of_shapes

SPEC = "Function"

inputs = of_shapes((4,))


class _Parts(Function):
    """Returns two outputs of one input; correct."""

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
    """Asks for None instead of zeros, but cannot handle it.

    Breaks: Function.backward.unused-output
    """

    @staticmethod
    def backward(ctx, first, second):
        (x,) = ctx.saved_tensors
        return first * x.cos() + second * x.exp()


class NothingWithoutBoth(_Parts):
    """Returns no gradient unless both outputs are used.

    Breaks: Function.backward.unused-output
    """

    @staticmethod
    def backward(ctx, first, second):
        if first is None or second is None:
            return None
        return _Parts.backward(ctx, first, second)


class OnesForTheUnused(_Parts):
    """Replaces missing gradients by ones.

    Breaks: Function.backward.unused-output
    """

    @staticmethod
    def backward(ctx, first, second):
        return _Parts.backward(
            ctx,
            torch.ones_like(second) if first is None else first,
            torch.ones_like(first) if second is None else second,
        )


class NothingLeadsBack(_Parts):
    """Returns its results in a dict, which autograd ignores: there is no gradient at all.

    Breaks: Function.backward.gradient
    """

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return {"sine": x.sin(), "power": x.exp()}


class ListOfInputs(Function):
    """Takes its tensors in a list, which autograd ignores: there is no gradient at all.

    Breaks: Function.backward.gradient
    """

    @staticmethod
    def inputs():
        yield ([torch.randn(3, dtype=torch.float64, requires_grad=True) for _ in range(2)],)

    @staticmethod
    def forward(ctx, tensors):
        ctx.save_for_backward(*tensors)
        return tensors[0] * tensors[1]

    @staticmethod
    def backward(ctx, grad):
        one, other = ctx.saved_tensors
        return [grad * other, grad * one]


class OneOfThemInAList(Function):
    """Takes one tensor directly and the others in a list, which get no gradient.

    Breaks: Function.backward.gradient
    """

    @staticmethod
    def inputs():
        x, *others = (torch.randn(3, dtype=torch.float64, requires_grad=True) for _ in range(3))
        yield x, others

    @staticmethod
    def forward(ctx, x, others):
        ctx.save_for_backward(x, *others)
        return x * others[0] * others[1]

    @staticmethod
    def backward(ctx, grad):
        _, one, other = ctx.saved_tensors
        return grad * one * other, None


class OneOfManyCutOff(Function):
    """Detaches one of eight incoming gradients.

    Breaks: Function.backward.double
    """

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return tuple(x**power for power in range(1, 9))

    @staticmethod
    def backward(ctx, *incoming):
        (x,) = ctx.saved_tensors
        parts = [grad.detach() if power == 4 else grad for power, grad in enumerate(incoming, 1)]
        return sum(power * grad * x ** (power - 1) for power, grad in enumerate(parts, 1))


class DividesByTheOther(_Parts):
    """Divides by the gradient of the second output, which is zero if only the first one is used.

    Breaks: Function.backward.gradient
    """

    @staticmethod
    def backward(ctx, first, second):
        (x,) = ctx.saved_tensors
        if first is None or second is None or not bool(first.any()):
            return _Parts.backward(ctx, first, second)
        return first * x.cos() + second.square() / second * x.exp()
