"""Correct Functions in the style of published ones, each of which was once accused."""

from __future__ import annotations

import torch
from torch.autograd import Function

SPEC = "Function"


def inputs():
    yield (torch.randn(4, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1)).requires_grad_(),)


class ReentrantCheckpoint(Function):
    """Runs forward again in backward, and refuses torch.autograd.grad, as a reentrant checkpoint does."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    def backward(ctx, grad):
        if not torch.autograd._is_checkpoint_valid():
            raise RuntimeError("not compatible with .grad(), please use .backward()")
        x = ctx.saved_tensors[0].detach().requires_grad_()
        with torch.enable_grad():
            y = x.sin()
        torch.autograd.backward(y, grad)
        return x.grad


class KeepsGeneratorState(Function):
    """Keeps the state of the generator, a byte tensor, on ctx, as torch.utils.checkpoint does."""

    @staticmethod
    def forward(ctx, x):
        ctx.state = torch.get_rng_state()
        return x * torch.rand(3, dtype=x.dtype)

    @staticmethod
    def backward(ctx, grad):
        with torch.random.fork_rng(devices=[]):
            torch.set_rng_state(ctx.state)
            return grad * torch.rand(3, dtype=grad.dtype)
