"""Correct Functions that use uninitialized memory, and write to all of it before they read."""

from __future__ import annotations

import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from tests.samples import of_shapes

SPEC = "Function"

inputs = of_shapes((4, 3), (3, 2))


class MatMulIntoBuffers(Function):
    """Writes results and gradients into buffers: by out=, with beta=0, row by row, through NumPy."""

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return torch.mm(x, w, out=x.new_empty(x.shape[0], w.shape[1]))

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        x, w = ctx.saved_tensors
        by_x = torch.empty_like(x, memory_format=torch.contiguous_format)
        for row, value in enumerate(grad @ w.mT):
            by_x[row] = value
        # A product whose first term counts nothing: what the buffer holds is not read.
        by_w = torch.addmm(torch.empty_like(w), x.mT, grad, beta=0)
        if x.device.type == "cpu" and x.dtype is not torch.bfloat16:
            held = torch.empty_like(by_w, memory_format=torch.contiguous_format)
            held.numpy()[...] = by_w.numpy()
            by_w = held
        return by_x, by_w


class SquareOfWhatIsChosen(Function):
    """Leaves part of a buffer unwritten, and never reads that part."""

    inputs = of_shapes((4, 3))

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        scratch = torch.empty_like(x)
        positive = x > 0
        scratch[positive] = x[positive].square()
        return torch.where(positive, scratch, 0)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        gradient = torch.empty_like(grad).zero_()
        gradient += 2 * x.clamp(min=0) * grad
        return gradient


class MaskOfNumPy(Function):
    """Keeps a NumPy array on ctx, which holds memory that PyTorch made and nobody else has."""

    inputs = of_shapes((4, 3))

    @staticmethod
    def forward(ctx, x):
        ctx.kept = {"mask": (x > 0).numpy()}
        return x.relu()

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        return grad * torch.from_numpy(ctx.kept["mask"])
