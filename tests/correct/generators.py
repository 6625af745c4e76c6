"""Correct Functions that draw random numbers from a generator that they are given."""

from __future__ import annotations

import random

import numpy as np
import torch
from torch.autograd import Function

SPEC = "Function"


class DrawsFromNumpysGenerator(Function):
    """Draws its mask from a generator of NumPy's."""

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
    """Draws normally distributed factors, which NumPy's older generator makes in pairs and may keep one of."""

    @staticmethod
    def inputs():
        yield torch.randn(3, 5, dtype=torch.float64, requires_grad=True), np.random.RandomState(3)

    @staticmethod
    def forward(ctx, x, generator):
        factors = torch.from_numpy(generator.standard_normal(tuple(x.shape))).to(x)
        ctx.save_for_backward(factors)
        return x * factors


class DrawsFromPythonsGenerator(DrawsFromNumpysGenerator):
    """Draws its mask from a generator of Python's, which it finds in a dictionary."""

    @staticmethod
    def inputs():
        yield torch.randn(3, 4, dtype=torch.float64, requires_grad=True), {"generator": random.Random(3)}

    @staticmethod
    def forward(ctx, x, options):
        mask = torch.tensor([options["generator"].random() < 0.5 for _ in range(x.numel())]).view(x.shape).to(x)
        ctx.save_for_backward(mask)
        return x * mask


class _Layer:
    """A caller's object with a generator of its own, which it makes when it is first asked for it."""

    def __init__(self):
        self.generators = {}

    def draw(self, x):
        generator = self.generators.setdefault("cpu", torch.Generator().manual_seed(135))
        return torch.randn(x.shape, dtype=x.dtype, generator=generator)


class DrawsFromAnObjectsGenerator(Function):
    """Draws factors from the generator of an object that it is given, as a layer hands itself to its Function."""

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
    """Projects on random directions, which it makes from a seed: PyTorch draws others in another dtype."""

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
    """Draws into memory that lies as its input does, so that another layout has other numbers."""

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
