"""Bugs of backward: wrong numbers, wrong counts, and gradients it must not change."""

from __future__ import annotations

import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from tests.correct import solvers as right
from tests.planted._matmul import MatMul
from tests.planted._square import Square
from tests.samples import of_shapes

SPEC = "Function"

inputs = of_shapes((3, 2), (2, 4))


class GradientMissing(MatMul):
    """Returns one gradient for two inputs.

    Breaks: Function.backward.count
    """

    @staticmethod
    def backward(ctx, grad):
        _, w = ctx.saved_tensors
        return grad @ w.t()


class GradientTooMany(MatMul):
    """Returns a third value that is not None.

    Breaks: Function.backward.count
    """

    @staticmethod
    def backward(ctx, grad):
        return (*MatMul.backward(ctx, grad), grad)


class GradientMissingForANumber(Function):
    """Returns no gradient for a number, which is an input too.

    Breaks: Function.backward.count
    """

    @staticmethod
    def inputs():
        yield torch.randn(3, requires_grad=True), 2.0

    @staticmethod
    def forward(ctx, x, factor):
        ctx.factor = factor
        return x * factor

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.factor


class OneValueForTwoOutputs(Function):
    """Takes the gradient of its first output only: the second output was added to forward later.

    Breaks: Function.backward.accepts
    """

    inputs = of_shapes((3, 2))

    @staticmethod
    def forward(ctx, x):
        return 2 * x, 3 * x

    @staticmethod
    def backward(ctx, grad):
        return 2 * grad


class InputsTakenAgain(MatMul):
    """Takes the parameters of forward in backward, after the gradient.

    Breaks: Function.backward.accepts
    """

    @staticmethod
    def backward(ctx, grad, x, w):
        return MatMul.backward(ctx, grad)


class TwiceTheGradient(MatMul):
    """Returns a gradient that is twice too large.

    Breaks: Function.backward.gradient
    """

    @staticmethod
    def backward(ctx, grad):
        one, other = MatMul.backward(ctx, grad)
        return one, 2 * other


class TwiceTheExponential(Function):
    """Returns a gradient that is twice too large and derived from a saved output, so second derivatives are wrong too.

    Breaks: Function.backward.gradient
    """

    @staticmethod
    def inputs():
        yield (torch.randn(4, dtype=torch.float64, requires_grad=True),)

    @staticmethod
    def forward(ctx, x):
        y = x.exp()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        return 2 * grad * y


class SignTurned(MatMul):
    """Returns one gradient with the wrong sign.

    Breaks: Function.backward.gradient
    """

    @staticmethod
    def backward(ctx, grad):
        one, other = MatMul.backward(ctx, grad)
        return -one, other


class GradientDropped(MatMul):
    """Returns None for the second input.

    Breaks: Function.backward.gradient
    """

    @staticmethod
    def backward(ctx, grad):
        return MatMul.backward(ctx, grad)[0], None


class OneElementWrong(Function):
    """Returns a long gradient with a single wrong element.

    Breaks: Function.backward.gradient
    """

    inputs = of_shapes((300,))

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        result = grad * x.cos()
        last = torch.zeros_like(result)
        last[-1] = 1.0
        return result * (1 - last)


class GradientsSwapped(Function):
    """Swaps two gradients of the same shape.

    Breaks: Function.backward.gradient
    """

    inputs = of_shapes((4,), (4,))

    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        return x * y * y

    @staticmethod
    def backward(ctx, grad):
        x, y = ctx.saved_tensors
        return 2 * x * y * grad, y * y * grad


class ConjugateForgotten(Square):
    """Forgets the conjugate in a complex derivative.

    Breaks: Function.backward.gradient
    """

    @staticmethod
    def inputs():
        yield (torch.randn(3, dtype=torch.complex128, requires_grad=True),)


class MeanForgotten(Function):
    """Returns the gradient of a sum for a mean; the sample is single precision.

    Breaks: Function.backward.gradient
    """

    @staticmethod
    def inputs():
        yield (torch.randn(5, 3, requires_grad=True),)

    @staticmethod
    def forward(ctx, x):
        ctx.shape = x.shape
        return x.mean()

    @staticmethod
    def backward(ctx, grad):
        return grad.expand(ctx.shape)


class WrongInHalfPrecision(Function):
    """Returns half the gradient; accepts only float16.

    Breaks: Function.backward.gradient
    """

    @staticmethod
    def inputs():
        yield (torch.rand(4, dtype=torch.float16).add_(1).requires_grad_(),)

    @staticmethod
    def forward(ctx, x):
        if x.dtype != torch.float16:
            raise TypeError("half precision only")
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, grad):
        return ctx.saved_tensors[0] * grad


class UndeclaredSurrogate(Function):
    """Passes the gradient of a rounding straight through, with no formula that declares it.

    Breaks: Function.backward.gradient
    """

    inputs = of_shapes((6,))

    @staticmethod
    def forward(ctx, x):
        return x.round()

    @staticmethod
    def backward(ctx, grad):
        return grad


class SecondInputAlone(MatMul):
    """Checks needs_input_grad of the first input for both gradients.

    Breaks: Function.backward.needs-input-grad-honoured
    """

    @staticmethod
    def backward(ctx, grad):
        if not ctx.needs_input_grad[0]:
            return None, None
        return MatMul.backward(ctx, grad)


class IndicesMixedUp(MatMul):
    """Checks the wrong entry of needs_input_grad for each gradient.

    Breaks: Function.backward.needs-input-grad-honoured
    """

    @staticmethod
    def backward(ctx, grad):
        one, other = MatMul.backward(ctx, grad)
        return one if ctx.needs_input_grad[1] else None, other if ctx.needs_input_grad[0] else None


class CannotDoOneAlone(MatMul):
    """Raises if the second input needs no gradient.

    Breaks: Function.backward.needs-input-grad-honoured
    """

    @staticmethod
    def backward(ctx, grad):
        one, other = MatMul.backward(ctx, grad)
        factor = None if not ctx.needs_input_grad[1] else 1
        return one * factor, other


class SavedOnlyWithTheFirst(MatMul):
    """Saves what it needs only if the first input needs a gradient.

    Breaks: Function.backward.needs-input-grad-honoured
    """

    @staticmethod
    def forward(ctx, x, w):
        if ctx.needs_input_grad[0]:
            ctx.save_for_backward(x, w)
        return x @ w

    @staticmethod
    def backward(ctx, grad):
        if not ctx.saved_tensors:
            return None, torch.zeros_like(grad).sum(0).expand(2, 4)
        return MatMul.backward(ctx, grad)


class GradientScaledInPlace(Function):
    """Scales the incoming gradient in place and returns it.

    Breaks: Function.backward.grads-untouched
    """

    inputs = of_shapes((3, 2))

    @staticmethod
    def forward(ctx, x):
        return 3 * x

    @staticmethod
    def backward(ctx, grad):
        return grad.mul_(3)


class GradientClippedThroughNumpy(Function):
    """Modifies the incoming gradient through NumPy, which bypasses the version counter.

    Breaks: Function.backward.grads-untouched
    """

    inputs = of_shapes((3, 2))

    @staticmethod
    def forward(ctx, x):
        return 2 * x

    @staticmethod
    def backward(ctx, grad):
        grad.detach().numpy()[...] *= 2
        return grad


class GradientZeroedAfterwards(MatMul):
    """Clears the incoming gradient after use, to save memory.

    Breaks: Function.backward.grads-untouched
    """

    @staticmethod
    def backward(ctx, grad):
        found = MatMul.backward(ctx, grad)
        grad.data.zero_()
        return found


class GradientsLostUnlessContiguous(MatMul):
    """Returns zeros if the incoming gradient is not contiguous.

    Breaks: Function.backward.any-layout
    """

    @staticmethod
    def backward(ctx, grad):
        one, other = MatMul.backward(ctx, grad)
        return (one, other) if grad.is_contiguous() else (torch.zeros_like(one), torch.zeros_like(other))


class MemoryReadAsIfContiguous(MatMul):
    """Reads the gradient's memory in order, ignoring its strides.

    Breaks: Function.backward.any-layout
    """

    @staticmethod
    def backward(ctx, grad):
        missing = grad.numel() - grad.untyped_storage().nbytes() // grad.element_size()
        flat = grad.detach().as_strided((grad.numel() - max(missing, 0),), (1,))
        padded = torch.cat([flat, flat.new_zeros(max(missing, 0))])
        return MatMul.backward(ctx, padded.view(grad.shape))


class ViewOfTheGradient(MatMul):
    """Flattens the gradient by view, which fails if it is expanded or transposed.

    Breaks: Function.backward.any-layout
    """

    @staticmethod
    def backward(ctx, grad):
        return MatMul.backward(ctx, grad.view(-1).view(grad.shape))


class ChannelsLastReadAsFirst(Function):
    """Reads channels-last gradients as if they were contiguous.

    Breaks: Function.backward.any-layout
    """

    inputs = of_shapes((2, 3, 4, 5))

    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        if grad.is_contiguous(memory_format=torch.channels_last):
            grad = grad.as_strided(grad.shape, torch.empty(grad.shape).stride())
        return grad * 2


class IntermediateSaved(Function):
    """Saves an intermediate value, so a second derivative misses how that depends on the input.

    Breaks: Function.backward.double
    """

    inputs = of_shapes((4,))

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x.cos())
        return x.sin()

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.saved_tensors[0]


class BackwardWithoutGraph(MatMul):
    """Computes gradients under no_grad, without once_differentiable.

    Breaks: Function.backward.double
    """

    @staticmethod
    def backward(ctx, grad):
        with torch.no_grad():
            return MatMul.backward(ctx, grad)


class SavedDetached(MatMul):
    """Detaches what it reads from saved_tensors.

    Breaks: Function.backward.double
    """

    @staticmethod
    def backward(ctx, grad):
        x, w = ctx.saved_tensors
        return grad @ w.detach().t(), x.detach().t() @ grad


class GradientThroughData(MatMul):
    """Reads the incoming gradient's .data, which cuts the graph.

    Breaks: Function.backward.double
    """

    @staticmethod
    def backward(ctx, grad):
        return MatMul.backward(ctx, grad.data)


class SavedTensorOverwritten(Function):
    """Overwrites the saved output through .data, which bypasses the version counter.

    Breaks: Function.backward.repeatable
    """

    inputs = of_shapes((4,))

    @staticmethod
    def forward(ctx, x):
        scale = x.exp()
        ctx.save_for_backward(scale)
        return scale.clone()

    @staticmethod
    def backward(ctx, grad):
        (scale,) = ctx.saved_tensors
        scale.data.mul_(grad.data)
        return scale.clone()


class NumberUsedUp(Function):
    """Pops a number from a list on ctx, so a second backward finds it empty.

    Breaks: Function.backward.repeatable
    """

    inputs = of_shapes((4,), others=(2.0,))

    @staticmethod
    def forward(ctx, x, factor):
        ctx.factors = [factor]
        return x * factor

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.factors.pop(), None


class HalfTheGradientTheSecondTime(MatMul):
    """Divides the gradient by the number of backward passes so far.

    Breaks: Function.backward.repeatable
    """

    @staticmethod
    def backward(ctx, grad):
        ctx.count = getattr(ctx, "count", 0) + 1
        one, other = MatMul.backward(ctx, grad)
        return one / ctx.count, other / ctx.count


class RowsThatShareTheirSums(right.BisectsWithinATolerance):
    """Sums over all rows what belongs to each, in the backward of a solver that stops within a tolerance.

    Breaks: Function.backward.gradient
    """

    inputs = right.BisectsWithinATolerance.inputs

    @staticmethod
    def backward(ctx, grad):
        (chosen,) = ctx.saved_tensors
        slope = chosen * (1 - chosen)
        return slope * (grad - (slope * grad).sum() / slope.sum())


class IteratesBackWithinAnAbsoluteTolerance(right.IteratesBackUntilItIsThere):
    """Stops too early for a small loss, and never for a large one.

    Breaks: Function.backward.gradient
    """

    inputs = right.IteratesBackUntilItIsThere.inputs

    @staticmethod
    def enough(grad):
        return 1e-12

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        return IteratesBackWithinAnAbsoluteTolerance.back(ctx, grad)
