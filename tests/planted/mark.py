"""Bugs of mark_dirty, mark_non_differentiable and set_materialize_grads."""

from __future__ import annotations

import torch
from torch.autograd import Function

from tests.samples import of_shapes

SPEC = "Function"

inputs = of_shapes((3, 2))


class _DoubleInPlace(Function):
    """Doubles its input in place; correct."""

    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x.mul_(2)

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


class _Sorted(Function):
    """Sorts, and returns the order too; correct."""

    @staticmethod
    def forward(ctx, x):
        values, order = x.flatten().sort()
        ctx.mark_non_differentiable(order)
        ctx.save_for_backward(order)
        ctx.shape = x.shape
        return values, order

    @staticmethod
    def backward(ctx, grad, _):
        (order,) = ctx.saved_tensors
        return torch.zeros_like(grad).index_add(0, order, grad).view(ctx.shape)


class MarkedDirtyTwice(_DoubleInPlace):
    """Calls mark_dirty before the change and after it.

    Breaks: Function.mark_dirty.once
    """

    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        x.mul_(2)
        ctx.mark_dirty(x)
        return x


class MarkedDirtyInBackward(_DoubleInPlace):
    """Calls mark_dirty in backward.

    Breaks: Function.mark_dirty.once
    """

    @staticmethod
    def backward(ctx, grad):
        found = grad * 2
        ctx.mark_dirty(found)
        return found


class MarkedDirtyInJvp(_DoubleInPlace):
    """Calls mark_dirty in jvp, for the tangent.

    Breaks: Function.mark_dirty.once
    """

    @staticmethod
    def jvp(ctx, tangent):
        ctx.mark_dirty(tangent)
        return tangent.mul_(2)


class ResultMarkedDirty(Function):
    """Marks a new tensor dirty that is not an input.

    Breaks: Function.mark_dirty.only-inputs
    """

    @staticmethod
    def forward(ctx, x):
        result = x * 2
        ctx.mark_dirty(result)
        return result

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


class DirtyInputNotReturned(Function):
    """Marks its input dirty and changes it, but does not return it.

    Breaks: Function.mark_dirty.only-inputs
    """

    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x.mul_(2).clone()

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


class ChangedThroughData(Function):
    """Changes its input through .data, without mark_dirty.

    Breaks: Function.mark_dirty.complete
    """

    @staticmethod
    def forward(ctx, x):
        x.data.mul_(2)
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


class ChangedThroughNumpy(Function):
    """Changes its input through NumPy, without mark_dirty.

    Breaks: Function.mark_dirty.complete
    """

    @staticmethod
    def forward(ctx, x):
        array = x.detach().numpy()
        array += 1
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        return grad


class ChangedInPlaceUnmarked(Function):
    """Changes its input in place and returns it, without mark_dirty.

    Breaks: Function.mark_dirty.complete
    """

    @staticmethod
    def forward(ctx, x):
        return x.add_(1)

    @staticmethod
    def backward(ctx, grad):
        return grad


class OneOfTwoMarked(Function):
    """Changes two inputs in place, and marks one.

    Breaks: Function.mark_dirty.complete
    """

    inputs = of_shapes((3,), (3,))

    @staticmethod
    def forward(ctx, x, y):
        ctx.mark_dirty(x)
        return x.mul_(2), y.mul_(3)

    @staticmethod
    def backward(ctx, first, second):
        return 2 * first, 3 * second


class RunningMeanUnmarked(Function):
    """Updates a running mean that needs no gradient, without mark_dirty, in the separate form.

    Breaks: Function.mark_dirty.complete
    """

    @staticmethod
    def inputs():
        yield torch.randn(4, 3, dtype=torch.float64, requires_grad=True), torch.zeros(3, dtype=torch.float64)

    @staticmethod
    def forward(x, running):
        running.lerp_(x.mean(0), 0.1)
        return x * 2

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, grad):
        return grad * 2, None


class MarkedNonDifferentiableTwice(_Sorted):
    """Calls mark_non_differentiable twice for the same output.

    Breaks: Function.mark_non_differentiable.once
    """

    @staticmethod
    def forward(ctx, x):
        values, order = _Sorted.forward(ctx, x)
        ctx.mark_non_differentiable(order)
        return values, order


class MarkedNonDifferentiableInBackward(_Sorted):
    """Calls mark_non_differentiable in backward, for the gradient.

    Breaks: Function.mark_non_differentiable.once
    """

    @staticmethod
    def backward(ctx, grad, _):
        found = _Sorted.backward(ctx, grad, _)
        ctx.mark_non_differentiable(found)
        return found


class InputMarkedNonDifferentiable(Function):
    """Marks an input non-differentiable.

    Breaks: Function.mark_non_differentiable.only-outputs
    """

    @staticmethod
    def forward(ctx, x):
        ctx.mark_non_differentiable(x)
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


class IntermediateMarkedNonDifferentiable(Function):
    """Marks a tensor non-differentiable that it does not return.

    Breaks: Function.mark_non_differentiable.only-outputs
    """

    @staticmethod
    def forward(x):
        return x * 2

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.mark_non_differentiable(output.detach())

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


class MaterializedInBackward(Function):
    """Calls set_materialize_grads in backward.

    Breaks: Function.set_materialize_grads.where
    """

    @staticmethod
    def forward(ctx, x):
        return x * 2, x * 3

    @staticmethod
    def backward(ctx, first, second):
        ctx.set_materialize_grads(False)
        return first * 2 + second * 3


class MaterializedByAssignmentInJvp(Function):
    """Assigns ctx.materialize_grads in jvp.

    Breaks: Function.set_materialize_grads.where
    """

    @staticmethod
    def forward(x):
        return x * 2

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, grad):
        return grad * 2

    @staticmethod
    def jvp(ctx, tangent):
        ctx.materialize_grads = True
        return tangent * 2
