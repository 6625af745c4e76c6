"""Bugs of Functions that draw random numbers, which show at other sizes and values, or if they run again."""

from __future__ import annotations

import random

import numpy as np
import torch
from torch.autograd import Function

from tests.correct import varied_random as right
from tests.samples import of_shapes

SPEC = "Function"


class MaskOfTheFirstBlock(right.DropsByProbability):
    """Ignores the mask beyond the first 64 entries of a row.

    Breaks: Function.backward.gradient
    """

    inputs = right.DropsByProbability.inputs

    @staticmethod
    def backward(ctx, grad):
        (mask,) = ctx.saved_tensors
        kept = mask.clone()
        kept[..., 64:] = True
        return grad * kept / (1 - ctx.p), None


class TwiceForAnyProbability(right.DropsByProbability):
    """Multiplies by two, which is correct for a probability of one half.

    Breaks: Function.backward.gradient
    """

    inputs = right.DropsByProbability.inputs

    @staticmethod
    def backward(ctx, grad):
        (mask,) = ctx.saved_tensors
        return 2 * grad * mask, None


class NoiseOfTheFirstRows(right.SmoothNoise):
    """Ignores the noise beyond the first 16 rows in backward.

    Breaks: Function.backward.gradient
    """

    inputs = right.SmoothNoise.inputs

    @staticmethod
    def backward(ctx, grad):
        x, noise = ctx.saved_tensors
        kept = torch.ones_like(noise)
        kept[:16] = noise[:16]
        return grad * kept * x.cos()


class NumpysOwnGenerator(right.NumpyBySeed):
    """Draws from NumPy's global generator, which a checkpoint does not restore.

    Breaks: Function.checkpoint.agrees
    """

    inputs = right.DropsAgainInBackward.inputs

    @staticmethod
    @torch.compiler.disable
    def forward(ctx, x):
        mask = torch.from_numpy(np.random.rand(*x.shape) < 0.5).to(x)
        ctx.save_for_backward(mask)
        return x * mask

    @staticmethod
    def backward(ctx, grad):
        (mask,) = ctx.saved_tensors
        return grad * mask


class PythonsOwnGenerator(NumpysOwnGenerator):
    """Draws from Python's global generator, which a checkpoint does not restore.

    Breaks: Function.checkpoint.agrees
    """

    inputs = right.DropsAgainInBackward.inputs

    @staticmethod
    @torch.compiler.disable
    def forward(ctx, x):
        mask = torch.tensor([random.random() < 0.5 for _ in range(x.numel())]).view(x.shape).to(x)
        ctx.save_for_backward(mask)
        return x * mask


class DropsAgainFromTheSeed(Function):
    """Seeds backward as the generator was seeded once, though numbers were drawn from it since.

    Breaks: Function.backward.gradient
    """

    inputs = of_shapes((3, 8))

    @staticmethod
    @torch.compiler.disable
    def forward(ctx, x):
        ctx.seed = torch.initial_seed()
        return x * (torch.rand(x.shape) >= 0.5)

    @staticmethod
    @torch.compiler.disable
    def backward(ctx, grad):
        generator = torch.Generator().manual_seed(ctx.seed)
        return grad * (torch.rand(grad.shape, generator=generator) >= 0.5)
