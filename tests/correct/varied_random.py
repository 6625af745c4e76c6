"""Correct Functions that draw random numbers, and differentiate with these numbers fixed."""

from __future__ import annotations

import numpy as np
import torch
from torch.autograd import Function

from tests.samples import of_shapes

SPEC = "Function"


class DropsByProbability(Function):
    """Applies dropout with a probability that is an argument, and saves the mask."""

    inputs = of_shapes((3, 8), others=(0.5,))

    @staticmethod
    def forward(ctx, x, p):
        if not 0 <= p < 1:
            raise ValueError(f"p has to be at least 0 and below 1, not {p}")
        mask = torch.rand_like(x) >= p
        ctx.save_for_backward(mask)
        ctx.p = p
        return x * mask / (1 - p)

    @staticmethod
    def backward(ctx, grad):
        (mask,) = ctx.saved_tensors
        return grad * mask / (1 - ctx.p), None


class DropsAgainInBackward(Function):
    """Keeps the generator's state instead of a mask, draws again in backward, and restores the generator."""

    inputs = of_shapes((3, 8))

    @staticmethod
    @torch.compiler.disable
    def forward(ctx, x):
        ctx.state = torch.get_rng_state().tolist()
        return x * (torch.rand(x.shape) >= 0.5)

    @staticmethod
    @torch.compiler.disable
    def backward(ctx, grad):
        with torch.random.fork_rng(devices=[]):
            torch.set_rng_state(torch.tensor(ctx.state, dtype=torch.uint8))
            mask = torch.rand(grad.shape) >= 0.5
        return grad * mask


class SmoothNoise(Function):
    """Multiplies a sine by noise, and saves the noise."""

    inputs = of_shapes((3, 8))

    @staticmethod
    def forward(ctx, x):
        noise = torch.rand_like(x) + 0.5
        ctx.save_for_backward(x, noise)
        return noise * x.sin()

    @staticmethod
    def backward(ctx, grad):
        x, noise = ctx.saved_tensors
        return grad * noise * x.cos()


class NumpyBySeed(Function):
    """Draws its mask by NumPy from a seed: run again, it draws the same."""

    inputs = of_shapes((3, 8), others=(7,))

    @staticmethod
    @torch.compiler.disable
    def forward(ctx, x, seed):
        mask = torch.from_numpy(np.random.default_rng(seed).random(tuple(x.shape)) < 0.5).to(x)
        ctx.save_for_backward(mask)
        return x * mask

    @staticmethod
    def backward(ctx, grad):
        (mask,) = ctx.saved_tensors
        return grad * mask, None


class RoundsAtRandom(Function):
    """Rounds up or down at random, and passes the gradient straight through."""

    inputs = of_shapes((3, 8))

    @staticmethod
    def forward(ctx, x):
        return (x + torch.rand_like(x)).floor()

    @staticmethod
    def backward(ctx, grad):
        return grad
