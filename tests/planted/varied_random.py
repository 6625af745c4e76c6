"""Bugs of Functions that draw random numbers: at other sizes and numbers, and if they run again."""

from __future__ import annotations

import random

import numpy as np
import torch

from tests.correct import varied_random as right

SPEC = "Function"


class MaskOfTheFirstBlock(right.DropsByProbability):
    """Keeps 64 places of its mask for each row, and lets the gradient through beyond.

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
    """Multiplies by two, as is right if one half is dropped.

    Breaks: Function.backward.gradient
    """

    inputs = right.DropsByProbability.inputs

    @staticmethod
    def backward(ctx, grad):
        (mask,) = ctx.saved_tensors
        return 2 * grad * mask, None


class NoiseOfTheFirstRows(right.SmoothNoise):
    """Takes noise beyond the first 16 rows to be one in backward.

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
    """Draws from NumPy's own generator, whose state a checkpoint does not put back.

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
    """The same with Python's.

    Breaks: Function.checkpoint.agrees
    """

    inputs = right.DropsAgainInBackward.inputs

    @staticmethod
    @torch.compiler.disable
    def forward(ctx, x):
        mask = torch.tensor([random.random() < 0.5 for _ in range(x.numel())]).view(x.shape).to(x)
        ctx.save_for_backward(mask)
        return x * mask
