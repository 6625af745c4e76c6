"""Correct Functions that draw random numbers from a generator among their arguments."""

from __future__ import annotations

import random

import numpy as np
import torch
from torch.autograd import Function

SPEC = "Function"


class DrawsFromNumpysGenerator(Function):
    """Draws its mask from a NumPy generator."""

    @staticmethod
    def inputs():
        yield torch.randn(3, 4, dtype=torch.float64, requires_grad=True), np.random.default_rng(3)

    @staticmethod
    def forward(ctx, x, generator):
        mask = torch.from_numpy(generator.random(tuple(x.shape)) < 0.5).to(x)
        ctx.save_for_backward(mask)
        return x * mask

    @staticmethod
    def backward(ctx, grad):
        (mask,) = ctx.saved_tensors
        return grad * mask, None


class DrawsFromNumpysOldGenerator(DrawsFromNumpysGenerator):
    """Draws normal numbers, which NumPy's older generator makes in pairs, keeping the second for the next call."""

    @staticmethod
    def inputs():
        yield torch.randn(3, 5, dtype=torch.float64, requires_grad=True), np.random.RandomState(3)

    @staticmethod
    def forward(ctx, x, generator):
        factors = torch.from_numpy(generator.standard_normal(tuple(x.shape))).to(x)
        ctx.save_for_backward(factors)
        return x * factors


class DrawsFromPythonsGenerator(DrawsFromNumpysGenerator):
    """Draws its mask from a Python generator, which it finds in a dict."""

    @staticmethod
    def inputs():
        yield torch.randn(3, 4, dtype=torch.float64, requires_grad=True), {"generator": random.Random(3)}

    @staticmethod
    def forward(ctx, x, options):
        mask = torch.tensor([options["generator"].random() < 0.5 for _ in range(x.numel())]).view(x.shape).to(x)
        ctx.save_for_backward(mask)
        return x * mask


class _Layer:
    """A caller's object that creates a generator when it first needs one."""

    def __init__(self):
        self.generators = {}

    def draw(self, x):
        generator = self.generators.setdefault("cpu", torch.Generator().manual_seed(135))
        return torch.randn(x.shape, dtype=x.dtype, generator=generator)


class DrawsFromAnObjectsGenerator(Function):
    """Draws from the generator of an object among its arguments, as a layer passes itself to its Function."""

    @staticmethod
    def inputs():
        yield torch.randn(3, 4, dtype=torch.float64, requires_grad=True), _Layer()

    @staticmethod
    def forward(ctx, x, layer):
        factors = layer.draw(x)
        ctx.save_for_backward(factors)
        return x * factors

    @staticmethod
    def backward(ctx, grad):
        (factors,) = ctx.saved_tensors
        return grad * factors, None


class SketchesByItsOwnSeed(Function):
    """Projects on random directions made from a seed: another dtype draws others."""

    @staticmethod
    def inputs():
        yield torch.randn(3, 4, dtype=torch.float64, requires_grad=True), 1

    @staticmethod
    def forward(ctx, x, seed):
        generator = torch.Generator().manual_seed(seed)
        directions = torch.randn(x.shape[-1], 8, dtype=x.dtype, generator=generator)
        ctx.save_for_backward(directions)
        return x @ directions

    @staticmethod
    def backward(ctx, grad):
        (directions,) = ctx.saved_tensors
        return grad @ directions.mT, None


class FillsMemoryByItsOwnSeed(Function):
    """Draws in memory order, so another layout of the input gets other numbers."""

    @staticmethod
    def inputs():
        yield torch.randn(4, 6, dtype=torch.float64, requires_grad=True), 1

    @staticmethod
    def forward(ctx, x, seed):
        noise = torch.empty_like(x).normal_(generator=torch.Generator(x.device).manual_seed(seed))
        ctx.save_for_backward(noise)
        return x * noise

    @staticmethod
    def backward(ctx, grad):
        (noise,) = ctx.saved_tensors
        return grad * noise, None
