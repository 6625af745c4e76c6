"""Functions with a bug each; ``FIXED=1`` in the environment mends them."""

import os

import torch
import torch.distributed as dist
from torch.autograd.function import once_differentiable

FIXED = bool(os.environ.get("FIXED"))


def inputs():
    yield (
        torch.randn(3, 2, dtype=torch.float64, requires_grad=True),
        torch.randn(2, 4, dtype=torch.float64, requires_grad=True),
    )


class Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x @ w

    @staticmethod
    def backward(ctx, grad):
        x, w = ctx.saved_tensors
        return grad @ w.t(), x.t() @ grad


class Doubled(Product):
    @staticmethod
    def backward(ctx, grad):
        x, w = ctx.saved_tensors
        return grad @ w.t() * (1 if FIXED else 2), x.t() @ grad


class OneMissing(Product):
    @staticmethod
    def backward(ctx, grad):
        x, w = ctx.saved_tensors
        return (grad @ w.t(), x.t() @ grad) if FIXED else grad @ w.t()


class Changes(Product):
    @staticmethod
    def backward(ctx, grad):
        x, w = ctx.saved_tensors
        both = grad @ w.t(), x.t() @ grad
        None if FIXED else grad.zero_()
        return both


class Viewed(Product):
    @staticmethod
    def backward(ctx, grad):
        x, w = ctx.saved_tensors
        grad = grad if FIXED else grad.view(-1).view(grad.shape)
        return grad @ w.t(), x.t() @ grad


class Kept(Product):
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        if not FIXED:
            ctx.x = x
        return x @ w


class Detached(Product):
    @staticmethod
    def backward(ctx, grad):
        x, w = ctx.saved_tensors
        if FIXED:
            return grad @ w.t(), x.t() @ grad
        return grad @ w.detach().t(), x.detach().t() @ grad


class Saved(Product):
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x) if not FIXED else None
        ctx.save_for_backward(x, w)
        return x @ w


class Rule(torch.autograd.Function):
    """A jvp and a vmap rule, both wrong."""

    @staticmethod
    def forward(x, w):
        return x @ w

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    backward = Product.backward

    @staticmethod
    def jvp(ctx, dx, dw):
        x, w = ctx.saved_tensors
        return dx @ w + (x @ dw if FIXED else 0 * (x @ dw))

    @staticmethod
    def vmap(info, in_dims, x, w):
        x = x.unsqueeze(0) if in_dims[0] is None else x.movedim(in_dims[0], 0)
        w = w.unsqueeze(0) if in_dims[1] is None else w.movedim(in_dims[1], 0)
        return Rule.apply(x, w) if FIXED else Rule.apply(x, w.flip(0)), 0


class Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        parts = [torch.empty_like(x) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, x.contiguous())
        return tuple(parts)

    @staticmethod
    @once_differentiable
    def backward(ctx, *grads):
        every = torch.stack(grads)
        if FIXED:
            dist.all_reduce(every)
        return every[dist.get_rank()].clone()
