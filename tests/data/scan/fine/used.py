"""Inputs that are no tensors, by methods and functions that tensors have too."""

import torch
import torch.distributed as dist
from torch.autograd import Function


class Equation(Function):
    @staticmethod
    def forward(ctx, equation, x, y):
        left, right = equation.split("->")
        ctx.equation = equation
        ctx.save_for_backward(x, y)
        return torch.einsum(equation, x, y)

    @staticmethod
    def backward(ctx, grad):
        x, y = ctx.saved_tensors
        return None, grad @ y.mT, x.mT @ grad


class Words(Function):
    @staticmethod
    def forward(ctx, x, spec, names, separator):
        ctx.spec, ctx.names = spec, names
        kind, count = spec.split(":")
        first, *_ = names.split(separator)
        return x.repeat(int(count))


class Shuffled(Function):
    @staticmethod
    def forward(ctx, x, n, seed):
        ctx.n, ctx.seed = n, seed
        torch.randint(seed, (3,))
        return x[torch.randperm(n)]


class Grid(Function):
    @staticmethod
    def forward(ctx, x, low, high, mean, base):
        ctx.low, ctx.high, ctx.mean, ctx.base = low, high, mean, base
        noise = torch.normal(mean, 1.0, x.shape)
        steps = torch.pow(base, torch.logspace(low, high, x.shape[-1]))
        return noise * x * torch.linspace(low, high, x.shape[-1]) * steps


class Strided(Function):
    @staticmethod
    def forward(ctx, x, size, array):
        ctx.size, ctx.array = size, array
        return x + torch.empty_strided(size, (1, 1)).zero_() + torch.from_numpy(array)


class Boundaries(Function):
    @staticmethod
    def forward(ctx, x, value, mask):
        ctx.value, ctx.mask = value, mask
        torch.bitwise_and(mask, x)
        torch.remainder(value, x)
        return x + torch.bucketize(value, x)


class Array(Function):
    @staticmethod
    def forward(ctx, x, table, filter, order):
        ctx.table = table.transpose(1, 0).reshape(-1)
        ctx.filter = filter
        ctx.order = order
        filter.dot(filter.clip(0, 1))
        order.argsort()
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * 2, None, None, None


class Halved(Function):
    @staticmethod
    def forward(ctx, x, module, sizes, group, storage):
        ctx.module, ctx.sizes, ctx.group, ctx.storage = module, sizes, group, storage
        module.half()
        module.double()
        group.scatter([x], [[x]])
        storage.long()
        return x * sizes.numel() * storage.element_size()


class Parts(Function):
    @staticmethod
    def forward(ctx, x, sizes):
        ctx.sizes = sizes
        return torch.cat([part * 2 for part in x.split(sizes)])


class OfTheirOwn(Function):
    @staticmethod
    def forward(ctx, x, selector, engine):
        ctx.engine, ctx.selector = engine, selector
        engine.view(3)
        engine.select(x)
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return ctx.engine.put(grad), None, None


class Shared(Function):
    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        result = x.clone()
        dist.all_reduce(result, group=group)
        return result
