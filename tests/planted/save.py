"""Bugs of saving: too often, too late, the wrong things, or not everything that is needed."""

from __future__ import annotations

from typing import Any

import torch
from torch.autograd import Function

from tests.samples import of_shapes

SPEC = "Function"

inputs = of_shapes((3, 2))


class _Cube(Function):
    """Cubes in the separate form, with a jvp; correct. The bugs below each change one member."""

    @staticmethod
    def forward(x):
        return x * x * x

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 3 * x * x * grad

    @staticmethod
    def jvp(ctx, tangent):
        (x,) = ctx.saved_tensors
        return 3 * x * x * tangent


class SavedTwice(Function):
    """Calls save_for_backward once for each tensor.

    Breaks: Function.save_for_backward.once
    """

    @staticmethod
    def inputs():
        yield torch.randn(3, dtype=torch.float64, requires_grad=True), torch.randn(3, dtype=torch.float64)

    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x)
        ctx.save_for_backward(x, y)
        return x * y

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.saved_tensors[1], None


class SavedInForwardAndAgainInAHelper(Function):
    """Saves nothing at first, and assigns ctx.to_save later.

    Breaks: Function.save_for_backward.once
    """

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward()
        y = x.exp()
        ctx.to_save = (y,)
        return y

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.saved_tensors[0]


class SavedInBackward(_Cube):
    """Calls save_for_backward in backward.

    Breaks: Function.save_for_backward.where
    """

    @staticmethod
    def backward(ctx, grad):
        found = _Cube.backward(ctx, grad)
        ctx.save_for_backward(found)
        return found


class SavedInJvp(_Cube):
    """Calls save_for_backward in jvp.

    Breaks: Function.save_for_backward.where
    """

    @staticmethod
    def jvp(ctx, tangent):
        ctx.save_for_backward(tangent)
        return _Cube.jvp(ctx, tangent)


class SavedFromOutside(_Cube):
    """Calls save_for_backward on the node after forward, in ``apply``.

    Breaks: Function.save_for_backward.where
    """

    @classmethod
    def apply(cls, *args: Any) -> Any:
        result = super().apply(*args)
        if result.grad_fn is not None:
            result.grad_fn.save_for_backward(*args)
        return result


class NumberSavedWithoutGradient(Function):
    """Saves a number instead of the tensor if no gradient is needed.

    Breaks: Function.save_for_backward.only-tensors
    """

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x if ctx.needs_input_grad[0] else 0)
        return x * x

    @staticmethod
    def backward(ctx, grad):
        return 2 * ctx.saved_tensors[0] * grad


class NumberSaved(Function):
    """Saves a number next to the tensor, which PyTorch refuses.

    Breaks: Function.save_for_backward.only-tensors
    """

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x, 2.0)
        return x * 2.0

    @staticmethod
    def backward(ctx, grad):
        return grad * 2.0


class ListSaved(Function):
    """Saves a list as one argument, which PyTorch does not notice if no gradient is needed.

    Breaks: Function.save_for_backward.only-tensors
    """

    @staticmethod
    def forward(ctx, x):
        if not ctx.needs_input_grad[0]:
            ctx.save_for_backward([x, x])
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


class KeptBesideWhatIsSaved(Function):
    """Saves one tensor and keeps another on ctx.

    Breaks: Function.save_for_backward.hooks-suffice
    """

    inputs = of_shapes((3,), (3,))

    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x)
        ctx.y = y
        return x * y

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.y, grad * ctx.saved_tensors[0]


class KeptInAClosure(Function):
    """Keeps its input in a closure on ctx.

    Breaks: Function.save_for_backward.hooks-suffice
    """

    @staticmethod
    def forward(ctx, x):
        ctx.derivative = lambda grad: 2 * x * grad
        return x * x

    @staticmethod
    def backward(ctx, grad):
        return ctx.derivative(grad)


class KeptAsNumpy(Function):
    """Keeps its input on ctx as a NumPy array that shares its memory.

    Breaks: Function.save_for_backward.hooks-suffice
    """

    @staticmethod
    def forward(ctx, x):
        ctx.array = x.detach().numpy()
        return x * x

    @staticmethod
    def backward(ctx, grad):
        return 2 * torch.from_numpy(ctx.array) * grad


class MaskKeptOnCtx(Function):
    """Keeps a boolean mask on ctx.

    Breaks: Function.save_for_backward.hooks-suffice
    """

    @staticmethod
    def forward(ctx, x):
        ctx.mask = x > 0
        return x.clamp(min=0)

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.mask


class SavedForForwardTwice(_Cube):
    """Calls save_for_forward twice.

    Breaks: Function.save_for_forward.once
    """

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_forward(output)
        _Cube.setup_context(ctx, inputs, output)


class SavedForForwardTwiceCombined(Function):
    """Calls save_for_forward twice, in the combined form.

    Breaks: Function.save_for_forward.once
    """

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_forward(None)
        ctx.save_for_forward(x)
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, grad):
        return 2 * ctx.saved_tensors[0] * grad

    @staticmethod
    def jvp(ctx, tangent):
        return 2 * ctx.saved_tensors[0] * tangent


class SavedForForwardInBackward(_Cube):
    """Calls save_for_forward in backward.

    Breaks: Function.save_for_forward.where
    """

    @staticmethod
    def backward(ctx, grad):
        ctx.save_for_forward(*ctx.saved_tensors)
        return _Cube.backward(ctx, grad)


class SavedForForwardInJvp(_Cube):
    """Calls save_for_forward in jvp.

    Breaks: Function.save_for_forward.where
    """

    @staticmethod
    def jvp(ctx, tangent):
        found = _Cube.jvp(ctx, tangent)
        ctx.save_for_forward(*ctx.saved_tensors)
        return found
