"""Things on ctx that are no tensors, or do not stay there."""

import math

import torch
from torch.autograd import Function


class PlainThings(Function):
    @staticmethod
    def forward(ctx, x, scale: float, dims, group, flag=False):
        ctx.shape = x.shape
        ctx.size = x.size(0)
        ctx.dtype, ctx.device = x.dtype, x.device
        ctx.scale = scale
        ctx.dims = dims
        ctx.group = group
        ctx.flag = flag
        ctx.count = x.numel() * 2
        ctx.root = math.sqrt(x.numel())
        ctx.needs = x.requires_grad
        ctx.strides = [x.stride(), x.shape]
        ctx.nothing = None
        return x * scale


class TakenOffAgain(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.scratch = torch.zeros_like(x)
        ctx.other = torch.zeros_like(x)
        result = x + ctx.scratch
        del ctx.scratch
        ctx.other = None
        return result


class NumberOrTensor(Function):
    @staticmethod
    def forward(ctx, x, offset):
        if isinstance(offset, int):
            ctx.save_for_backward(x)
            ctx.offset = offset
        else:
            ctx.save_for_backward(x, offset)
            ctx.offset = None
        return x + offset


class FlagBecomesTensor(Function):
    @staticmethod
    def forward(ctx, x, root):
        ctx.root = root
        root = torch.linalg.qr(x)[0]
        root = root.unsqueeze(0)
        ctx.save_for_backward(x, root)
        return root


class ScaleBySetupContext(Function):
    @staticmethod
    def forward(x, scale):
        return x * scale

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, scale = inputs
        ctx.save_for_backward(x)
        ctx.scale = scale
        ctx.inputs = len(inputs)


def as_array(x):
    return x.cpu().numpy()


class AnArray(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.array = as_array(x)
        return torch.tensor(ctx.array * 2)

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output * 2


class RememberedFlag(Function):
    @staticmethod
    def forward(ctx, x, steps):
        first = True
        for _ in range(steps):
            if not first:
                ctx.steps = x.shape
            first = False
        return x * 2

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output * 2, None
