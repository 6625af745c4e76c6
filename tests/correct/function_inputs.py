"""Correct Functions of every kind of input and output."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from tests.planted._square import Square
from tests.samples import of_shapes

SPEC = "Function"


class TensorsAndOthers(Function):
    """Takes a tensor, an integer tensor, None or a float, a string, and a number with a default."""

    @staticmethod
    def inputs():
        yield torch.randn(5, dtype=torch.float64, requires_grad=True), torch.tensor([0, 3, 3]), None, "sum"
        yield torch.randn(4, requires_grad=True), torch.tensor([1]), 2.0, "mean", 3

    @staticmethod
    def forward(ctx, x, index, scale, how, power=1):
        ctx.save_for_backward(index)
        ctx.size, ctx.scale = x.shape[0], (scale or 1.0) / (len(index) if how == "mean" else 1) * power
        return x[index].sum() * ctx.scale

    @staticmethod
    def backward(ctx, grad):
        (index,) = ctx.saved_tensors
        ones = (grad * ctx.scale).expand(index.shape)
        return torch.zeros(ctx.size, dtype=grad.dtype).index_add(0, index, ones), None, None, None, None


class NotAllDifferentiable(Function):
    """Takes a float tensor that does not require grad, and returns None for it."""

    @staticmethod
    def inputs():
        yield torch.randn(4, dtype=torch.float64, requires_grad=True), torch.rand(4, dtype=torch.float64)

    @staticmethod
    def forward(ctx, x, target):
        ctx.save_for_backward(x, target)
        return (x - target).square().sum()

    @staticmethod
    def backward(ctx, grad):
        x, target = ctx.saved_tensors
        return 2 * (x - target) * grad, None


class NestedArguments(Function):
    """Takes a list of tensors inside a dict, which autograd ignores, next to a differentiable tensor."""

    @staticmethod
    def inputs():
        pair = [torch.randn(3, dtype=torch.float64), torch.randn(3, dtype=torch.float64)]
        yield torch.randn(3, dtype=torch.float64, requires_grad=True), {"weights": pair, "scale": 2.0}

    @staticmethod
    def forward(ctx, x, options):
        one, other = options["weights"]
        ctx.save_for_backward(one, other)
        ctx.scale = options["scale"]
        return x * one * other * ctx.scale

    @staticmethod
    def backward(ctx, grad):
        one, other = ctx.saved_tensors
        return grad * one * other * ctx.scale, None


class KeepsAccounts(Function):
    """Writes to a list and a dict of the caller."""

    @staticmethod
    def inputs():
        yield torch.randn(3, dtype=torch.float64, requires_grad=True), [], {"calls": 0}

    @staticmethod
    def forward(ctx, x, norms, counts):
        ctx.norms = norms
        counts["calls"] += 1
        counts["elements"] = x.numel()
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        ctx.norms.append(float(grad.norm()))
        return grad * 2, None, None


@dataclass
class _Options:
    table: torch.Tensor
    scale: float


class CallersObject(Function):
    """Keeps the caller's object and module on ctx; they happen to own tensors."""

    @staticmethod
    def inputs():
        options = _Options(torch.ones(3), 2.0)
        yield torch.randn(3, dtype=torch.float64, requires_grad=True), options, torch.nn.Linear(2, 2)

    @staticmethod
    def forward(ctx, x, options, module):
        ctx.options, ctx.module = options, module
        return x * options.scale

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.options.scale, None, None


class Reversible(Function):
    """Takes a module and its weight, and runs the module again in backward, as reversible layers do."""

    @staticmethod
    def inputs():
        layer = torch.nn.Linear(3, 3, bias=False, dtype=torch.float64)
        yield torch.randn(2, 3, dtype=torch.float64, requires_grad=True), layer, layer.weight

    @staticmethod
    def forward(ctx, x, layer, weight):
        ctx.layer = layer
        ctx.save_for_backward(x)
        return layer(x).exp()

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        with torch.enable_grad():
            again = x.detach().requires_grad_()
            y = ctx.layer(again).exp()
        inner, own = torch.autograd.grad(y, [again, ctx.layer.weight], grad)
        return inner, None, own


class MixedOutputs(Function):
    """Returns a differentiable output, an index, a number and None."""

    inputs = of_shapes((5,))

    @staticmethod
    def forward(ctx, x):
        value, index = x.max(0)
        ctx.mark_non_differentiable(index)
        ctx.save_for_backward(index)
        ctx.size = x.shape[0]
        return value, index, 7, None

    @staticmethod
    def backward(ctx, grad, *_):
        (index,) = ctx.saved_tensors
        return torch.zeros(ctx.size, dtype=grad.dtype).index_put((index,), grad)


class OnlyIntegers(Function):
    """Returns no differentiable output."""

    inputs = of_shapes((5,))

    @staticmethod
    def forward(ctx, x):
        index = x.argmax()
        ctx.mark_non_differentiable(index)
        return index

    @staticmethod
    def backward(ctx, grad):
        return None


class OnlyIntegersIn(Function):
    """Takes no differentiable input."""

    @staticmethod
    def inputs():
        yield torch.arange(4), 2

    @staticmethod
    def forward(ctx, x, factor):
        return x * factor

    @staticmethod
    def backward(ctx, grad):
        return None, None


class SeveralOutputs(Function):
    """Returns three outputs, and handles gradients that are None."""

    @staticmethod
    def inputs():
        yield (
            torch.randn(4, dtype=torch.float64, requires_grad=True),
            torch.randn((), requires_grad=True).double(),
        )

    @staticmethod
    def forward(ctx, x, y):
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(x, y)
        return x * y, x + 1, y * y

    @staticmethod
    def backward(ctx, product, total, square):
        x, y = ctx.saved_tensors
        for_x, for_y = torch.zeros_like(x), torch.zeros_like(y)
        if product is not None:
            for_x, for_y = for_x + product * y, for_y + (product * x).sum()
        if total is not None:
            for_x = for_x + total
        if square is not None:
            for_y = for_y + 2 * y * square
        return (
            for_x if ctx.needs_input_grad[0] else None,
            for_y if ctx.needs_input_grad[1] else None,
        )


class ManyInputs(Function):
    """Takes so many inputs that not all combinations of needs_input_grad are tried."""

    inputs = of_shapes((2,), (2,), (2,), (2,), (2,), (2,), (2,))

    @staticmethod
    def forward(ctx, *tensors):
        ctx.count = len(tensors)
        return torch.stack(tensors).sum(0)

    @staticmethod
    def backward(ctx, grad):
        return (grad,) * ctx.count


class Complex(Function):
    """Takes and returns complex numbers."""

    @staticmethod
    def inputs():
        yield (torch.randn(3, dtype=torch.complex128, requires_grad=True),)
        yield (torch.randn((), dtype=torch.complex64, requires_grad=True),)

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 2 * x.conj() * grad


class ComplexToReal(Square):
    """Takes complex numbers and returns real ones."""

    @staticmethod
    def inputs():
        yield (torch.randn(2, 2, dtype=torch.complex128, requires_grad=True),)

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.real.square() + x.imag.square()


class RealBesideComplex(Function):
    """Returns an odd number of real numbers, and complex ones after them."""

    @staticmethod
    def inputs():
        yield (torch.randn(3, dtype=torch.complex128, requires_grad=True),)

    @staticmethod
    def forward(ctx, z):
        ctx.save_for_backward(z)
        return z.real.square() + z.imag.square(), z * z

    @staticmethod
    def backward(ctx, size_grad, grad):
        (z,) = ctx.saved_tensors
        return 2 * size_grad * z + 2 * grad * z.conj()


class _Exp(Function):
    @staticmethod
    def forward(ctx, x):
        y = x.exp()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.saved_tensors[0]


class Half(_Exp):
    """Accepts any floating-point dtype; its samples have half and single precision."""

    @staticmethod
    def inputs():
        yield (torch.randn(3, dtype=torch.float16, requires_grad=True),)
        yield (torch.randn(3, dtype=torch.bfloat16, requires_grad=True),)
        yield (torch.randn(3, requires_grad=True),)


class OneDtypeAlone(Function):
    """Refuses everything but single precision."""

    @staticmethod
    def inputs():
        yield (torch.randn(6, requires_grad=True),)

    @staticmethod
    def forward(ctx, x):
        if x.dtype != torch.float32:
            raise TypeError("float32 only")
        return _Exp.forward(ctx, x)

    @staticmethod
    def backward(ctx, grad):
        return _Exp.backward(ctx, grad)


class HalfAlone(OneDtypeAlone):
    """Refuses everything but half precision."""

    @staticmethod
    def inputs():
        yield (torch.randn(6, dtype=torch.float16, requires_grad=True),)
        yield (torch.randn(200, dtype=torch.float16, requires_grad=True),)

    @staticmethod
    def forward(ctx, x):
        if x.dtype != torch.float16:
            raise TypeError("float16 only")
        return _Exp.forward(ctx, x)


class SinglePrecisionInside(Function):
    """Accepts double precision, and computes in single."""

    @staticmethod
    def inputs():
        yield (torch.randn(6, dtype=torch.float64, requires_grad=True),)
        yield (torch.randn(400, dtype=torch.float64, requires_grad=True),)

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.float().sin().to(x.dtype)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return (grad.float() * x.float().cos()).to(grad.dtype)


class HalfPrecisionInside(Function):
    """Accepts double precision, and computes in half."""

    @staticmethod
    def inputs():
        yield (torch.randn(6, dtype=torch.float64, requires_grad=True),)
        yield (torch.randn(400, dtype=torch.float64, requires_grad=True),)

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.half().sin().to(x.dtype)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return (grad.half() * x.half().cos()).to(grad.dtype)


class PoolsTies(Function):
    """Takes the larger of two numbers. If they are equal, as is common after a ReLU, the first gets the gradient."""

    @staticmethod
    def inputs():
        for rows in range(1, 5):
            yield (torch.zeros(rows, 8, dtype=torch.float64, requires_grad=True),)

    @staticmethod
    def forward(ctx, x):
        pairs = x.unflatten(-1, (-1, 2))
        ctx.save_for_backward(pairs[..., 0] >= pairs[..., 1])
        return pairs.amax(-1)

    @staticmethod
    def backward(ctx, grad):
        (first,) = ctx.saved_tensors
        return torch.stack([grad * first, grad * ~first], -1).flatten(-2)


class CheckpointOfParameters(Function):
    """Runs a module again in backward, as checkpoints do; its parameters are arguments, so they get gradients."""

    @staticmethod
    def inputs():
        layer = torch.nn.Linear(3, 2, dtype=torch.float64)
        yield layer, torch.randn(4, 3, dtype=torch.float64, requires_grad=True), *layer.parameters()

    @staticmethod
    def forward(ctx, run, x, *parameters):
        ctx.run = run
        ctx.save_for_backward(x, *parameters)
        return run(x)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        x, *parameters = ctx.saved_tensors
        x = x.detach().requires_grad_()
        with torch.enable_grad():
            result = ctx.run(x)
        wanted = [value for value, needed in zip((x, *parameters), ctx.needs_input_grad[1:], strict=True) if needed]
        found = iter(torch.autograd.grad(result, wanted, grad, allow_unused=True))
        return None, *(next(found) if needed else None for needed in ctx.needs_input_grad[1:])


class _Keys:
    """The keys that a decoder has seen so far, passed from layer to layer."""

    def __init__(self):
        self.seen = []


class FillsCallersCache(Function):
    """Appends keys to a cache of the caller."""

    @staticmethod
    def inputs():
        query, key = torch.randn(2, 3, dtype=torch.float64), torch.randn(4, 3, dtype=torch.float64)
        yield query.requires_grad_(), key.requires_grad_(), _Keys()

    @staticmethod
    def forward(ctx, query, key, cache):
        cache.seen.append(key.detach().clone())
        ctx.save_for_backward(query, key)
        return query @ key.mT

    @staticmethod
    def backward(ctx, grad):
        query, key = ctx.saved_tensors
        return grad @ key, grad.mT @ query, None


class DetachesTensorsInAList(Function):
    """Takes tensors in a list, and detaches them: no gradient is meant for them."""

    @staticmethod
    def inputs():
        x, y, z = (torch.randn(3, dtype=torch.float64, requires_grad=True) for _ in range(3))
        yield x, [y, z]

    @staticmethod
    def forward(ctx, x, others):
        return 2 * x + sum(other.detach() for other in others) + torch.zeros_like(others[0])

    @staticmethod
    def backward(ctx, grad):
        return 2 * grad, None
