"""Correct Functions that do what looks suspicious: saved copies, None for gradients, settings changed and restored."""

from __future__ import annotations

import warnings

import numpy
import torch
from torch.amp import custom_bwd, custom_fwd
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from torch.nn.attention import SDPBackend, sdpa_kernel

from tests.planted._square import Square
from tests.samples import of_shapes

SPEC = "Function"

inputs = of_shapes((3, 4))


class SavesACopy(Function):
    """Saves a copy, so the gradient is right even if the input changes later."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x.detach().clone())
        return x * x

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        return 2 * ctx.saved_tensors[0] * grad


class NoneForAnyOutput(Function):
    """Asks for None instead of zeros, and handles it for either output and for both."""

    @staticmethod
    def forward(ctx, x):
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(x)
        return x * x, x * 3

    @staticmethod
    def backward(ctx, grad_square, grad_triple):
        (x,) = ctx.saved_tensors
        terms = [] if grad_square is None else [2 * x * grad_square]
        terms += [] if grad_triple is None else [3 * grad_triple]
        return sum(terms) if terms else None


class SafelyNormalized(Function):
    """Divides the gradient by its norm, unless that is zero, and multiplies again."""

    @staticmethod
    def forward(ctx, x):
        return 3 * x

    @staticmethod
    def backward(ctx, grad):
        size = max(float(grad.abs().sum()), 1e-30)
        return 3 * (grad / size) * size


class InnerBackwardOnACopy(Function):
    """Runs an inner backward pass, which leaves its gradient on a copy."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        copy = ctx.saved_tensors[0].detach().requires_grad_()
        with torch.enable_grad():
            copy.sin().backward(grad)
        return copy.grad


_SCALE = torch.nn.Parameter(torch.tensor(2.0, dtype=torch.float64))


class DetachedParameter(Function):
    """Multiplies by a parameter that is not trained, and detaches it to say so."""

    @staticmethod
    def forward(ctx, x):
        return x * _SCALE.detach()

    @staticmethod
    def backward(ctx, grad):
        return grad * _SCALE.detach()


class MaskedLate(Function):
    """Computes a mask in setup_context, by way of views."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        return x.clamp(min=0)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[0].reshape(-1).view_as(inputs[0]) > 0)

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.saved_tensors[0]


class UnderAutocast(Function):
    """Multiplies matrices under autocast, forward and backward."""

    @staticmethod
    def inputs():
        yield torch.randn(3, 4, requires_grad=True), torch.randn(4, 2, requires_grad=True)

    @staticmethod
    @custom_fwd(device_type="cpu")
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        return x @ y

    @staticmethod
    @custom_bwd(device_type="cpu")
    def backward(ctx, grad):
        x, y = ctx.saved_tensors
        return grad @ y.T, x.T @ grad


class AddsUpInBfloat16(Function):
    """Sums gradients by PyTorch's sum, which accumulates in single precision."""

    @staticmethod
    def inputs():
        rows, bias = torch.randn(600, 2), torch.randn(2)
        yield rows.bfloat16().requires_grad_(), bias.bfloat16().requires_grad_()

    @staticmethod
    def forward(ctx, x, bias):
        return x + bias

    @staticmethod
    def backward(ctx, grad):
        return grad, grad.sum(0)


class PutsSettingsBack(Square):
    """Changes the default dtype and the deterministic mode in backward, and restores both."""

    @staticmethod
    def backward(ctx, grad):
        dtype, is_deterministic = torch.get_default_dtype(), torch.are_deterministic_algorithms_enabled()
        torch.set_default_dtype(torch.float64)
        torch.use_deterministic_algorithms(False)
        try:
            return Square.backward(ctx, grad)
        finally:
            torch.use_deterministic_algorithms(is_deterministic)
            torch.set_default_dtype(dtype)


class PutsBackTheRest(Square):
    """Silences warnings and NumPy, disables oneDNN and attention kernels, and restores everything."""

    @staticmethod
    def forward(ctx, x):
        quiet, silent = warnings.catch_warnings(), numpy.errstate(all="ignore")
        with quiet, silent, torch.backends.mkldnn.flags(enabled=False), sdpa_kernel(SDPBackend.MATH):
            warnings.simplefilter("ignore")
            return Square.forward(ctx, x)


class TripledOnce(Function):
    """Is linear, works in place on copies of what comes in, and has a backward that is differentiated once."""

    @staticmethod
    def forward(ctx, x):
        return 3 * x

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        return grad.clone().mul_(3)

    @staticmethod
    def jvp(ctx, tangent):
        return tangent.clone().mul_(3)


class TangentByNumPy(TripledOnce):
    """Computes the tangent outside of PyTorch, which refuses one that is tracked."""

    @staticmethod
    def jvp(ctx, tangent):
        return torch.from_numpy(3 * tangent.numpy())
