"""Bugs that read a storage from its beginning, although the tensor has an offset: a row, a part of a cat."""

from __future__ import annotations

import torch
from torch.autograd.function import once_differentiable

from tests.planted._matmul import MatMul
from tests.samples import of_shapes

SPEC = "Function"

inputs = of_shapes((4, 3), (3, 2))


def _from_the_beginning(tensor):
    """Read the memory of a contiguous tensor from the beginning of its storage, ignoring its offset."""
    whole = tensor.contiguous()
    flat = torch.empty(0, dtype=whole.dtype, device=whole.device).set_(whole.untyped_storage())
    return flat[: whole.numel()].view(whole.shape)


class StorageOfTheSaved(MatMul):
    """Reads saved tensors from the beginning of their storage, ignoring their offset.

    Breaks: Function.backward.gradient
    """

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        x, w = map(_from_the_beginning, ctx.saved_tensors)
        return grad @ w.t(), x.t() @ grad


class StorageOfTheGradient(MatMul):
    """Reads the incoming gradient from the beginning of its storage, ignoring its offset.

    Breaks: Function.backward.any-layout
    """

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        x, w = ctx.saved_tensors
        grad = _from_the_beginning(grad)
        return grad @ w.t(), x.t() @ grad
