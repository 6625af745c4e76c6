"""Correct vmap rules of Functions that draw random numbers."""

from __future__ import annotations

import torch
from torch.autograd import Function

from tests.samples import given

SPEC = "Function"


def _random(*shape):
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(3)).requires_grad_()


inputs = given((_random(2, 3),))


class _Masked(Function):
    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(output[1])

    @staticmethod
    def backward(ctx, grad, _):
        return grad * ctx.saved_tensors[0]


class DrawsUntilBelow(_Masked):
    """Draws again until the noise is small next to its input: how much is drawn depends on the values of a sample."""

    @staticmethod
    def forward(x):
        noise, limit = torch.rand_like(x), float(x.abs().sum())
        for _ in range(9):
            if float(noise.sum()) > limit:
                noise = torch.rand_like(x)
        return x * noise, noise

    @staticmethod
    def vmap(info, in_dims, x):
        if info.randomness != "different":
            raise RuntimeError("each sample draws numbers of its own")
        found = [DrawsUntilBelow.apply(sample) for sample in x.unbind(in_dims[0])]
        return tuple(torch.stack(parts) for parts in zip(*found, strict=True)), (0, 0)


class DropsByValue(_Masked):
    """Keeps each number with a probability that is its own sigmoid: other values may well give the same mask."""

    @staticmethod
    def forward(x):
        mask = (torch.rand_like(x) < x.sigmoid()).to(x.dtype)
        return mask.clone(), mask

    @staticmethod
    def backward(ctx, grad, _):
        return torch.zeros_like(grad)

    @staticmethod
    def vmap(info, in_dims, x):
        x = x.movedim(in_dims[0], 0)
        if info.randomness == "error":
            raise RuntimeError("give vmap randomness='same' or 'different'")
        drawn = torch.rand_like(x if info.randomness == "different" else x[0]).expand_as(x)
        mask = (drawn < x.sigmoid()).to(x.dtype)
        return (mask.clone(), mask), (0, 0)
