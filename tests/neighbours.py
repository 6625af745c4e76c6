"""Bugs that break the same test for different causes, for the tests of what is said of the cause."""

from __future__ import annotations

from typing import Any

import torch
from torch.autograd import Function

from tests.planted import alike
from tests.planted._square import Square

#: What a bug keeps beside its ctx.
REMEMBERED: dict[str, Any] = {}


class KeepsItsPullback(Function):
    """Returns the very tensor that a function on ctx holds."""

    @staticmethod
    def forward(ctx, x):
        y, ctx.pull = torch.func.vjp(torch.exp, x)
        return y

    @staticmethod
    def backward(ctx, grad):
        return ctx.pull(grad)[0]


class TakesItsResultForTheLoss(Square):
    """Gives the gradient of the sum of its results."""

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 2 * x


class ForwardModeInside(Square):
    """Computes its tangent by forward mode, within which PyTorch calls it."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        ctx.save_for_forward(x)
        return x * x

    @staticmethod
    def jvp(ctx, tangent):
        (x,) = ctx.saved_tensors
        return torch.func.jvp(torch.square, (x,), (tangent,))[1]


class SavedForBackwardAlone(Square):
    """Its jvp reads what was saved for backward, which PyTorch hands to backward alone."""

    @staticmethod
    def jvp(ctx, tangent):
        (x,) = ctx.saved_tensors
        return 2 * x * tangent


class UnpacksTooMuch(Square):
    """Its jvp expects two tensors where one was saved."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        ctx.save_for_forward(x)
        return x * x

    @staticmethod
    def jvp(ctx, tangent):
        x, _ = ctx.saved_tensors
        return 2 * x * tangent


class StopsWithinAThreshold(Square):
    """Finds its gradient by an iteration, which stops within an absolute tolerance."""

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        right, found = 2 * x * grad, torch.zeros_like(x)
        for _ in range(100):
            if (found - right).abs().max() < 1e-9:
                break
            found = found + (right - found) / (2 + x.abs())
        return found


class NormalizesAlmost(Square):
    """Divides its gradient by the norm of the incoming one, and multiplies by a little more than it."""

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 2 * x * grad * (1 + 1e-9 / grad.norm())


class KeptBeside(Square):
    """The input is kept on ctx."""

    @staticmethod
    def forward(ctx, x):
        ctx.x = x
        return x * x

    @staticmethod
    def backward(ctx, grad):
        return 2 * grad * ctx.x


class KnowsTheAddress(Square):
    """What is saved has to come back at the same place in memory."""

    @staticmethod
    def forward(ctx, x):
        ctx.address = x.data_ptr()
        return Square.forward(ctx, x)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 2 * grad * x if x.data_ptr() == ctx.address else 3 * grad * x


class DecoratedForCtx(Square):
    """custom_fwd expects ctx first, and there is none."""

    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu")
    def forward(x):
        return x * x

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)


class WritesOnItsInput(Square):
    """Leaves a note on its input."""

    @staticmethod
    def forward(ctx, x):
        x.seen = True
        return Square.forward(ctx, x)


class SavedAsSparse(Function):
    """What is saved is a sparse tensor that was made of the indices, and shares their memory."""

    @staticmethod
    def forward(ctx, x, index):
        ctx.save_for_backward(torch.sparse_coo_tensor(index, x.detach(), (3, *x.shape[1:])))
        return torch.zeros_like(x).index_add(0, index[0], x)

    @staticmethod
    def backward(ctx, grad):
        (kept,) = ctx.saved_tensors
        return grad[kept._indices()[0]], None


class ChangesBack(Square):
    """Backward works on its input, and undoes that."""

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        right = 2 * grad * x
        x.data.mul_(0.1).div_(0.1)
        return right


class KeptUntilBackward(Function):
    """Keeps its input as a plain attribute, which backward deletes, beside a function."""

    @staticmethod
    def forward(ctx, x):
        ctx.x, ctx.slope = x, torch.cos
        return x.sin()

    @staticmethod
    def backward(ctx, grad):
        slope = ctx.slope(ctx.x)
        del ctx.x
        return grad * slope


class KeptElsewhere(Square):
    """The input of the last call is kept in the module."""

    @staticmethod
    def forward(ctx, x):
        REMEMBERED["x"] = x.detach()
        return x * x

    @staticmethod
    def backward(ctx, grad):
        return 2 * grad * REMEMBERED["x"]


def in_order(tensor):
    """The memory of a tensor, read as if it were contiguous."""
    return torch.as_strided(tensor, tensor.shape, torch.empty(tensor.shape).stride())


class ReadsInOrder(Square):
    """Forward takes its input for contiguous."""

    @staticmethod
    def forward(ctx, x):
        return Square.forward(ctx, in_order(x.detach()))


class SavesInOrder(Square):
    """Backward alone takes the input for contiguous."""

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 2 * grad * in_order(x)


class OtherNumbersElsewhere(Square):
    """Another formula for what is not contiguous."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x if x.is_contiguous() else 1.5 * x * x


class OtherGradientElsewhere(Square):
    """Another gradient for what is not contiguous."""

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 2 * grad * x if x.is_contiguous() else 2.5 * grad * x


class Normalizes(Square):
    """It divides by the norm of the gradient, and multiplies again."""

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 2 * x * (grad / grad.norm()) * grad.norm()


class DividesByEach(Square):
    """It divides by every element of the gradient."""

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 2 * x * (grad * grad / grad)


class OneBuffer(Square):
    """Every backward writes into the same memory."""

    @staticmethod
    def backward(ctx, grad):
        right = Square.backward(ctx, grad)
        buffer = REMEMBERED.setdefault(f"gradient {tuple(right.shape)}", torch.empty_like(right))
        return buffer.copy_(right)


class ClearsTheLast(Square):
    """Every backward clears what the one before returned."""

    @staticmethod
    def backward(ctx, grad):
        if "last" in REMEMBERED:
            REMEMBERED["last"].zero_()
        REMEMBERED["last"] = Square.backward(ctx, grad)
        return REMEMBERED["last"]


class OneWorkspace(Function):
    """Saves a buffer on the class, which the next call of forward writes again."""

    buffers: dict[Any, torch.Tensor] = {}

    @staticmethod
    def forward(ctx, x):
        result = x.exp()
        held = OneWorkspace.buffers.setdefault((x.shape, x.dtype), result).copy_(result)
        ctx.save_for_backward(held)
        return 2 * held

    @staticmethod
    def backward(ctx, grad):
        (held,) = ctx.saved_tensors
        return 2 * grad * held


class OneOutput(Square):
    """Every call writes its result into the same memory."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return REMEMBERED.setdefault(f"output {tuple(x.shape)}", torch.empty_like(x)).copy_(x * x)


class ClearsTheLastOutput(Square):
    """Every call clears the result of the one before."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        if "result" in REMEMBERED:
            REMEMBERED["result"].zero_()
        REMEMBERED["result"] = x * x
        return REMEMBERED["result"].view_as(x)


class Rounded(Square):
    """The gradient goes through half precision."""

    @staticmethod
    def backward(ctx, grad):
        return Square.backward(ctx, grad).half().to(grad.dtype)


class Damped(Square):
    """A small number is added to what is divided by."""

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 2 * grad * x.abs() * x / (x.abs() + 1e-3)


class DampedOnce(Damped):
    """It refuses the seed with which another look at its gradient begins."""

    @staticmethod
    def backward(ctx, grad):
        if torch.initial_seed() > 1:
            raise RuntimeError("not again")
        return Damped.backward(ctx, grad)


class IgnoresTheFlag(Square):
    """It takes a lazily negated gradient for what stands in memory."""

    @staticmethod
    def backward(ctx, grad):
        plain = -grad.resolve_neg() if grad.is_neg() else grad
        return Square.backward(ctx, plain)


class ThreeForAFlag(Square):
    """Another gradient for what is lazily negated."""

    @staticmethod
    def backward(ctx, grad):
        return Square.backward(ctx, 3 * grad if grad.is_neg() else grad)


class Zeros(Square):
    """The result is zeros."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x if x.is_contiguous() else torch.zeros_like(x)


class ScalesTheGradient(Square):
    """Backward works in place on the gradient."""

    @staticmethod
    def backward(ctx, grad):
        return grad.mul_(2) * ctx.saved_tensors[0]


class ScalesTheData(Square):
    """Backward works in place on an alias of the gradient."""

    @staticmethod
    def backward(ctx, grad):
        grad.data.mul_(2)
        return grad * ctx.saved_tensors[0]


class TransposesItsInput(Square):
    """Forward transposes the input itself, in place."""

    @staticmethod
    def forward(ctx, x):
        y = x.t_() * 1
        ctx.save_for_backward(y.t())
        return (y * y).t()


class ScalesItsInputsData(Square):
    """Forward changes an alias of its input."""

    @staticmethod
    def forward(ctx, x):
        x.data.mul_(2)
        return Square.forward(ctx, x)


class SavesAViewOfItsOutput(Square):
    """A view of the output is saved, which keeps the output and its graph."""

    @staticmethod
    def forward(ctx, x):
        y = x.exp()
        ctx.save_for_backward(y.view(-1))
        return y

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.saved_tensors[0].view(grad.shape)


class CountedTwice(alike.Exchanged):
    """Counts each gradient twice."""

    @staticmethod
    def backward(ctx, grad):
        x, y = ctx.saved_tensors
        return 2 * grad * y, 2 * grad * x


class LacksConj(alike.Exchanged):
    """Multiplies with the other factor itself, as is right for real numbers only."""

    @staticmethod
    def backward(ctx, grad):
        x, y = ctx.saved_tensors
        return grad * y, grad * x


class RoundedAtRandom(Square):
    """Rounds the gradient up or down, at random."""

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return torch.floor(2 * grad * x * 64 + torch.rand_like(x)) / 64


class SavesItsSlope(Function):
    """Saves a result that is neither an input nor an output: differentiated again, it is a constant."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x.cos())
        return x.sin()

    @staticmethod
    def backward(ctx, grad):
        (slope,) = ctx.saved_tensors
        return slope * grad


class SavesItsInputAndDetachesIt(SavesItsSlope):
    """Reads its input by an alias without a graph, beside a constant that takes no gradient."""

    @staticmethod
    def forward(ctx, x, factor):
        ctx.save_for_backward(x, factor)
        return x.sin() * factor

    @staticmethod
    def backward(ctx, grad):
        x, factor = ctx.saved_tensors
        return x.detach().cos() * factor * grad, None


class SecondFactorWrong(SavesItsSlope):
    """Computes its gradient by another Function, whose own gradient is wrong."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    def backward(ctx, grad):
        return _SlopeOfTwice.apply(*ctx.saved_tensors) * grad


class _SlopeOfTwice(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.cos()

    @staticmethod
    def backward(ctx, grad):
        return -2 * ctx.saved_tensors[0].sin() * grad
