"""Correct implementations of MakeViewlessTensor in other styles."""

from __future__ import annotations

import torch
from torch.autograd import Function


def _through_data(inp, requires_grad):
    out = torch.empty((1,), dtype=inp.dtype, device=inp.device, requires_grad=requires_grad)
    out.data = inp.data
    return out


class AsPublished(Function):
    """Replaces the data of an empty tensor, as in Megatron-LM."""

    @staticmethod
    def forward(ctx, inp, requires_grad):
        return _through_data(inp, requires_grad)

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output, None

    @staticmethod
    def make_viewless_tensor(inp, requires_grad, keep_graph):
        if inp._base is None:
            return inp
        return AsPublished.apply(inp, requires_grad) if keep_graph else _through_data(inp, requires_grad)


class BySet(Function):
    """Sets an empty tensor to the storage; defines vjp instead of backward."""

    @staticmethod
    def forward(ctx, inp, requires_grad):
        return torch.empty(0, dtype=inp.dtype, device=inp.device).set_(inp.detach())

    @staticmethod
    def vjp(ctx, grad_output):
        return grad_output.clone(), None


class Separate(Function):
    """Uses the separate form, with a jvp and without vmap."""

    @staticmethod
    def forward(inp, requires_grad=True):
        return inp.detach()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output, None

    @staticmethod
    def jvp(ctx, tangent, _):
        return tangent
