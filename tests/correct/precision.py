"""Correct Functions whose gradients are hard to judge: solvers, kernels of one dtype, random gradients."""

from __future__ import annotations

import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from conformance import Subject
from tests.samples import of_shapes

SPEC = "Function"


def inputs():
    yield (torch.rand(4, dtype=torch.float64).add(1).requires_grad_(),)


class SolverWithResidue(Function):
    """Leaves a residue of 1e-11 in the result and one of 3e-9 in the gradient, as a solver with an inactive bound."""

    @staticmethod
    def inputs():
        yield (
            torch.rand(4, dtype=torch.float64).div(10).requires_grad_(),
            torch.rand(4, dtype=torch.float64).add(5).requires_grad_(),
        )

    @staticmethod
    def forward(ctx, x, bound):
        ctx.save_for_backward(x)
        return x.square() + 1e-11 * bound

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 2 * grad * x, 3e-9 * grad


class NormOfManyRows(Function):
    """Layer norm in single precision: thousands of rows, added up in the order of memory, cancel out in one column."""

    @staticmethod
    def inputs():
        generator = torch.Generator().manual_seed(16)
        shapes = ((8, 1024, 4), (4,), (4,))
        yield (*(torch.randn(shape, generator=generator).requires_grad_() for shape in shapes), 1e-5)

    @staticmethod
    def forward(ctx, x, weight, bias, eps):
        centred = x - x.mean(-1, keepdim=True)
        scale = (centred.square().mean(-1, keepdim=True) + eps).rsqrt()
        ctx.save_for_backward(centred * scale, scale, weight)
        return centred * scale * weight + bias

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        normal, scale, weight = ctx.saved_tensors
        own = grad * weight
        means = own.mean(-1, keepdim=True) + normal * (own * normal).mean(-1, keepdim=True)
        return scale * (own - means), (grad * normal).sum((0, 1)), grad.sum((0, 1)), None


class BackwardInSinglePrecision(Function):
    """Accepts only float32 in backward, but float64 in forward as well."""

    @staticmethod
    def inputs():
        yield (torch.rand(4).add(1).requires_grad_(),)

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.square()

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 2 * grad * _single(x)


def _single(x):
    if x.dtype != torch.float32:
        raise TypeError(f"the kernel takes float32, not {x.dtype}")
    return x


class TangentInSinglePrecision(Function):
    """Accepts only float32 in jvp."""

    @staticmethod
    def inputs():
        yield (torch.rand(4).add(1).requires_grad_(),)

    @staticmethod
    def forward(x):
        return x.square()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[0])
        ctx.save_for_forward(inputs[0])

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 2 * grad * x

    @staticmethod
    def jvp(ctx, tangent):
        (x,) = ctx.saved_tensors
        return 2 * tangent * _single(x)


class _SampledSurrogate(Function):
    @staticmethod
    def forward(ctx, x):
        return x.sign()

    @staticmethod
    def backward(ctx, grad):
        return grad * torch.rand_like(grad)


def _matrices():
    yield from inputs()
    yield (torch.rand(3, 4, dtype=torch.float64).add(1).requires_grad_(),)  # random numbers follow memory


SampledSurrogate = Subject(
    _SampledSurrogate, inputs=_matrices, formula=lambda args, grads: (grads[0] * torch.rand_like(grads[0]),)
)


class AveragesInSinglePrecision(Function):
    """Averages over windows of an image in float32, whatever the dtype."""

    @staticmethod
    def inputs():
        for _ in range(3):
            yield (torch.randn(2, 3, 4, 6, dtype=torch.float64, requires_grad=True),)

    @staticmethod
    def forward(ctx, x):
        return torch.nn.functional.avg_pool2d(x.float(), 2).to(x.dtype)

    @staticmethod
    def backward(ctx, grad):
        return torch.nn.functional.interpolate(grad.float(), scale_factor=2).to(grad.dtype) / 4


class BiasBeforeNormalization(Function):
    """Adds a bias that normalization removes: its gradient is zero, and pure rounding error in half precision."""

    @staticmethod
    def inputs():
        yield (
            torch.randn(5, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1)).requires_grad_(),
            torch.randn(3, dtype=torch.float64, generator=torch.Generator().manual_seed(2)).requires_grad_(),
        )

    @staticmethod
    def forward(ctx, x, bias):
        biased = x + bias
        centred = biased - biased.mean(0)
        scale = centred.square().mean(0).rsqrt()
        ctx.save_for_backward(centred * scale, scale)
        return centred * scale

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        result, scale = ctx.saved_tensors
        centred = (grad - grad.mean(0) - result * (grad * result).mean(0)) * scale
        return centred, centred.sum(0)


def _of_shapes(seed, *shapes):
    generator = torch.Generator().manual_seed(seed)
    return tuple(torch.randn(shape, dtype=torch.float64, generator=generator).requires_grad_() for shape in shapes)


class Attention(Function):
    """Is the textbook's: with many columns its weights are zeros and ones, and single precision returns rounding."""

    @staticmethod
    def inputs():
        for seed in range(3):
            yield (*_of_shapes(seed, (2, 4, 3), (2, 4, 3), (2, 4, 3)), 0.5)

    @staticmethod
    def forward(ctx, q, k, v, scale):
        weights = ((q @ k.mT) * scale).softmax(-1)
        ctx.save_for_backward(q, k, v, weights)
        ctx.scale = scale
        return weights @ v

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        q, k, v, weights = ctx.saved_tensors
        of_weights = grad @ v.mT
        of_scores = weights * (of_weights - (of_weights * weights).sum(-1, keepdim=True)) * ctx.scale
        return of_scores @ k, of_scores.mT @ q, weights.mT @ grad, None


class CosineOfRows(Function):
    """Has a gradient of zero if rows have one element, and returns rounding there."""

    @staticmethod
    def inputs():
        for seed in range(3):
            yield _of_shapes(seed, (4, 3), (4, 3))

    @staticmethod
    def forward(ctx, a, b):
        lengths = a.norm(dim=-1, keepdim=True), b.norm(dim=-1, keepdim=True)
        cosine = (a * b).sum(-1, keepdim=True) / (lengths[0] * lengths[1])
        ctx.save_for_backward(a, b, *lengths, cosine)
        return cosine.squeeze(-1)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        a, b, of_a, of_b, cosine = ctx.saved_tensors
        grad = grad.unsqueeze(-1)
        both = of_a * of_b
        return grad * (b / both - cosine * a / of_a.square()), grad * (a / both - cosine * b / of_b.square())


class Sine(Function):
    """Twice the sine."""

    inputs = of_shapes((3, 4))

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return 2 * x.sin()

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 2 * grad * x.cos()


class ProductOfSingleInHalf(Function):
    """Multiplies matrices of single precision in bfloat16, as is common on GPUs, and those of double as they are."""

    inputs = of_shapes((6, 40), (40, 7))

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return _product(x, w)

    @staticmethod
    def backward(ctx, grad):
        x, w = ctx.saved_tensors
        grad = grad.to(x.dtype)  # under autocast forward returns another one
        return _product(grad, w.mT), _product(x.mT, grad)


def _product(x, w):
    return (x.bfloat16() @ w.bfloat16()).float() if x.dtype is torch.float32 else x @ w


class SoftmaxOfBfloat16(Function):
    """Rounds after each operation: for incoming gradients of ones, rounding alone is left of the gradient."""

    @staticmethod
    def inputs():
        yield (torch.randn(8, 100).bfloat16().requires_grad_(),)

    @staticmethod
    def forward(ctx, x):
        shifted = torch.exp(x - x.amax(-1, keepdim=True))
        y = shifted / shifted.sum(-1, keepdim=True)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        return y * (grad - (grad * y).sum(-1, keepdim=True))
