"""Correct Functions that do what looks suspicious: in place, views, caches, random numbers, kinks."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from tests.samples import of_shapes

SPEC = "Function"


def inputs():
    yield (torch.randn(3, 4, dtype=torch.float64, requires_grad=True),)
    yield (torch.randn(2, 3, 2, requires_grad=True).transpose(0, 2),)


class InPlace(Function):
    """Works in place, marks its input and returns it."""

    @staticmethod
    def forward(ctx, x):
        x.mul_(2)
        ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


class InPlaceThroughNumpy(Function):
    """Works in place through NumPy, and marks its input."""

    inputs = of_shapes((5,))

    @staticmethod
    def forward(ctx, x):
        array = x.detach().numpy()
        array += 1
        ctx.mark_dirty(x)
        return x

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        return grad


class InPlaceAndMore(Function):
    """Changes one input in place, saves it as an output, and returns another output."""

    @staticmethod
    def forward(x):
        return x.exp_(), torch.ones_like(x)

    inputs = of_shapes((4,))

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.mark_dirty(inputs[0])
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(output[0])

    @staticmethod
    def backward(ctx, grad, _):
        return grad * ctx.saved_tensors[0]


class RunningMean(Function):
    """Updates a running mean that needs no gradient, marks and returns it, as batch norms do."""

    @staticmethod
    def inputs():
        yield torch.randn(5, 3, dtype=torch.float64, requires_grad=True), torch.zeros(3, dtype=torch.float64)

    @staticmethod
    def forward(ctx, x, running):
        mean = x.mean(0)
        running.mul_(0.9).add_(mean, alpha=0.1)
        ctx.mark_dirty(running)
        ctx.mark_non_differentiable(running)
        return x - mean, running

    @staticmethod
    def backward(ctx, grad, _):
        return grad - grad.mean(0), None


class ReturnsItsInput(Function):
    """Returns its input."""

    @staticmethod
    def forward(ctx, x):
        return x

    @staticmethod
    def backward(ctx, grad):
        return grad


class ReturnsAView(Function):
    """Returns a view of its input."""

    @staticmethod
    def forward(ctx, x):
        ctx.shape = x.shape
        return x[0]

    @staticmethod
    def backward(ctx, grad):
        return torch.cat([grad.unsqueeze(0), grad.new_zeros((ctx.shape[0] - 1, *ctx.shape[1:]))])


class ReturnsANarrowView(Function):
    """Returns the incoming gradient from backward, expanded."""

    @staticmethod
    def forward(ctx, x):
        ctx.shape = x.shape
        return x.sum()

    @staticmethod
    def backward(ctx, grad):
        return grad.expand(ctx.shape)


class Dropout(Function):
    """Draws random numbers in forward."""

    @staticmethod
    def forward(ctx, x):
        keep = (torch.rand_like(x) > 0.4).to(x.dtype)
        ctx.save_for_backward(keep)
        return x * keep

    @staticmethod
    def backward(ctx, grad):
        (keep,) = ctx.saved_tensors
        return grad * keep


class CalledByName(Function):
    """Passes an argument by keyword, in the combined form."""

    inputs = of_shapes((3, 4), others=(2.5,))

    @classmethod
    def apply(cls, x, factor):
        return super().apply(x, factor=factor)

    @staticmethod
    def forward(ctx, x, factor=1.0):
        ctx.factor = factor
        return x * factor

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.factor, None


class DrawsAgain(Function):
    """Draws the same numbers again in backward, and restores the generator."""

    @staticmethod
    def forward(ctx, x):
        ctx.state = torch.get_rng_state().tolist()
        return x * torch.rand(x.shape, dtype=x.dtype)

    @staticmethod
    def backward(ctx, grad):
        with torch.random.fork_rng(devices=[]):
            torch.set_rng_state(torch.tensor(ctx.state, dtype=torch.uint8))
            factors = torch.rand(grad.shape, dtype=grad.dtype)
        return grad * factors


class DrawsFromAGenerator(Function):
    """Draws random numbers from a generator that is an argument."""

    @staticmethod
    def inputs():
        yield torch.randn(3, 4, dtype=torch.float64, requires_grad=True), torch.Generator().manual_seed(3)

    @staticmethod
    def forward(ctx, x, generator):
        mask = torch.empty_like(x).bernoulli_(0.5, generator=generator)
        ctx.save_for_backward(mask)
        return x * mask

    @staticmethod
    def backward(ctx, grad):
        (mask,) = ctx.saved_tensors
        return grad * mask, None


class StochasticRounding(Function):
    """Draws random numbers in backward too: a declared gradient, not a derivative."""

    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return (grad + 1e-12 * torch.rand_like(grad)) * 2


class Kink(Function):
    """Has samples at the kinks of a ReLU."""

    @staticmethod
    def inputs():
        yield (torch.tensor([0.0, 0.0, 1.0, -1.0, 0.0], dtype=torch.float64, requires_grad=True),)
        yield (torch.zeros(3, dtype=torch.float64, requires_grad=True),)
        yield (torch.zeros(3, requires_grad=True),)

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.clamp(min=0)

    @staticmethod
    def backward(ctx, grad):
        return grad * (ctx.saved_tensors[0] > 0)


class Step(Function):
    """Has samples at the steps of a step function, whose gradient is zero."""

    @staticmethod
    def inputs():
        yield (torch.tensor([0.0, 1.0, 0.5, -2.0], dtype=torch.float64, requires_grad=True),)

    @staticmethod
    def forward(ctx, x):
        return x.floor()

    @staticmethod
    def backward(ctx, grad):
        return torch.zeros_like(grad)


class Ties(Function):
    """Takes a maximum over equal numbers."""

    @staticmethod
    def inputs():
        yield (torch.ones(4, 3, dtype=torch.float64, requires_grad=True),)

    @staticmethod
    def forward(ctx, x):
        values, order = x.max(0)
        ctx.save_for_backward(order)
        ctx.shape = x.shape
        return values

    @staticmethod
    def backward(ctx, grad):
        (order,) = ctx.saved_tensors
        return grad.new_zeros(ctx.shape).scatter(0, order.unsqueeze(0), grad.unsqueeze(0))


class Steep(Function):
    """Curves sharply: a difference over a long step is far from the derivative."""

    @staticmethod
    def inputs():
        yield (torch.randn(4, requires_grad=True),)
        yield (torch.randn(4, dtype=torch.float64, requires_grad=True),)
        yield (1e-4 * torch.randn(4, dtype=torch.float64, requires_grad=True),)
        yield (1e4 * torch.randn(4, dtype=torch.float64, requires_grad=True),)

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return (20 * x).sin()

    @staticmethod
    def backward(ctx, grad):
        return 20 * (20 * ctx.saved_tensors[0]).cos() * grad


class OutsideItsDomain(Function):
    """Returns NaN for some of its inputs."""

    @staticmethod
    def inputs():
        yield (torch.tensor([-1.0, 2.0, 0.0], dtype=torch.float64, requires_grad=True),)

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.log()

    @staticmethod
    def backward(ctx, grad):
        return grad / ctx.saved_tensors[0]


class CachedConstant(Function):
    """Caches a constant on the class for each size."""

    _windows: dict[Any, torch.Tensor] = {}

    @staticmethod
    def _window(like):
        key = (like.shape[-1], like.dtype)
        if key not in CachedConstant._windows:
            CachedConstant._windows[key] = torch.arange(like.shape[-1], dtype=like.dtype, device=like.device)
        return CachedConstant._windows[key]

    @staticmethod
    def forward(ctx, x):
        return x * CachedConstant._window(x)

    @staticmethod
    def backward(ctx, grad):
        return grad * CachedConstant._window(grad)


class SavesNone(Function):
    """Saves None instead of what is not needed."""

    inputs = of_shapes((3,), (3,))

    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x if ctx.needs_input_grad[1] else None, y if ctx.needs_input_grad[0] else None)
        return x * y

    @staticmethod
    def backward(ctx, grad):
        x, y = ctx.saved_tensors
        return None if y is None else grad * y, None if x is None else grad * x


class NumpyInside(Function):
    """Computes with NumPy, and says once_differentiable."""

    inputs = of_shapes((5,))

    @staticmethod
    def forward(ctx, x):
        array = x.detach().numpy()
        ctx.save_for_backward(x)
        return torch.from_numpy(array**2)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        array = ctx.saved_tensors[0].detach().numpy()
        return torch.from_numpy(2 * array * grad.detach().contiguous().numpy())


class DoubleBackwardByAnother(Function):
    """Calls another Function in backward, so that it can be differentiated twice."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx, grad):
        return _CubeBackward.apply(ctx.saved_tensors[0], grad)


class _CubeBackward(Function):
    @staticmethod
    def forward(ctx, x, grad):
        ctx.save_for_backward(x, grad)
        return 3 * x * x * grad

    @staticmethod
    def backward(ctx, second):
        x, grad = ctx.saved_tensors
        return 6 * x * grad * second, 3 * x * x * second


class IntermediateReturned(Function):
    """Returns its intermediate value as well, so that the second derivative sees it."""

    @staticmethod
    def forward(ctx, x):
        scale = x.exp()
        ctx.save_for_backward(x, scale)
        return scale * x, scale

    @staticmethod
    def backward(ctx, grad, grad_scale):
        x, scale = ctx.saved_tensors
        return grad * (scale + x * scale) + grad_scale * scale


class Expanded(Function):
    """Has samples that are expanded or strided."""

    @staticmethod
    def inputs():
        yield (torch.randn(1, 3, dtype=torch.float64).expand(4, 3).requires_grad_(),)
        yield (torch.randn(4, 6, dtype=torch.float64)[:, ::2].requires_grad_(),)

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.square().sum(0)

    @staticmethod
    def backward(ctx, grad):
        return 2 * grad * ctx.saved_tensors[0]


class MeanForEachRow(Function):
    """Repeats the scaled mean of the rows. Without rows the mean is NaN, and so is PyTorch's own gradient."""

    inputs = of_shapes((4, 3), (3,))

    @staticmethod
    def forward(ctx, x, scale):
        mean = x.mean(0)
        ctx.save_for_backward(x, scale)
        return (mean * scale).repeat(len(x), 1)

    @staticmethod
    def backward(ctx, grad):
        x, scale = ctx.saved_tensors
        total = grad.sum(0)
        return (total * scale / len(x)).expand_as(x), total * x.mean(0)


class NotDifferentiable(Function):
    """Raises an error in its own backward, as PyTorch's default backward does."""

    @staticmethod
    def forward(ctx, x):
        return (4 * x).round() / 4

    @staticmethod
    def backward(ctx, grad):
        """Raise NotImplementedError."""
        raise NotImplementedError("steps have no gradient")


class AddedUpInANumber(Function):
    """Starts from a scalar of its own, and adds rows to it in place."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        total = torch.tensor(0.0, dtype=x.dtype, device=x.device)
        for row in x:
            total += row.square().sum()
        return total

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 2 * grad * x


class FilledOverNumpy(Function):
    """Uses memory allocated by NumPy, and fills it in place."""

    inputs = of_shapes((3, 4))

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        result = torch.from_numpy(np.zeros(tuple(x.shape)))
        return result.add_(x).mul_(x)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 2 * grad * x


class GradientsMadeInForward(Function):
    """Computes gradients by torch.func in forward, as chunked losses do."""

    inputs = of_shapes((3, 3), (3, 3))

    @staticmethod
    def forward(ctx, x, w):
        loss = lambda x, w: (x @ w).square().sum()  # noqa: E731
        gradients, value = torch.func.grad_and_value(loss, argnums=(0, 1))(x, w)
        ctx.save_for_backward(*gradients)
        return torch.zeros_like(x[0, 0]).add_(value)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        return tuple(grad * gradient for gradient in ctx.saved_tensors)
