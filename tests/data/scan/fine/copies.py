"""Tensors of backward's own, by operations that look like views, and containers of which one item is changed."""

import torch
import torch.nn.functional as F
from torch.autograd import Function


class InvertedMask(Function):
    @staticmethod
    def forward(ctx, x, mask):
        y = x[~mask]
        y.mul_(2)
        result = x.clone()
        result[~mask] = y
        ctx.save_for_backward(mask)
        return result

    @staticmethod
    def backward(ctx, grad):
        (mask,) = ctx.saved_tensors
        kept = mask[~mask]
        kept.fill_(True)
        rest = grad[~mask]
        rest.mul_(2)
        gradient = grad.clone()
        gradient[~mask] = rest
        return gradient, None


class NegatedIndices(Function):
    @staticmethod
    def forward(ctx, x, order):
        ctx.save_for_backward(order)
        return x[-order]

    @staticmethod
    def backward(ctx, grad):
        (order,) = ctx.saved_tensors
        turned = grad[-order]
        turned.mul_(1)
        last = grad[..., -order]
        last += 1
        return turned, None


class Columns(Function):
    @staticmethod
    def forward(ctx, x):
        return F.fold(x, (4, 4), 2)

    @staticmethod
    def backward(ctx, grad):
        columns = F.unfold(grad, 2)
        columns.mul_(1)
        return columns


class CopyTo(Function):
    @staticmethod
    def forward(ctx, x):
        return 2 * x

    @staticmethod
    def backward(ctx, grad):
        own = grad.to(torch.float64, copy=True)
        own.mul_(2)
        placed = grad.to(grad.device, grad.dtype, False, True)
        placed.mul_(2)
        cast = torch.Tensor.to(grad, torch.float64, False, True)
        cast.mul_(2)
        return own.to(grad.dtype)


class Broadcast(Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        return x * y

    @staticmethod
    def backward(ctx, grad):
        x, y = ctx.saved_tensors
        wide, own = torch.broadcast_tensors(grad, torch.ones(3))
        own = own.contiguous()
        own.mul_(2)
        return wide * y, wide * x


class ByNumber(Function):
    @staticmethod
    def forward(ctx, x):
        return 2 * x

    @staticmethod
    def backward(ctx, grad):
        ways = {1: grad.clone(), 2: grad}
        ways[1].mul_(2)
        names = {"grad": grad, "own": grad.clone()}
        names["own"].mul_(2)
        names["grad"] = grad.clone()
        names["grad"].mul_(2)
        return ways[1]


class Rearranged(Function):
    @staticmethod
    def forward(ctx, x):
        return 2 * x

    @staticmethod
    def backward(ctx, grad):
        turned = [grad, grad.clone()]
        turned.reverse()
        turned[0].mul_(2)
        shorter = [grad, grad.clone()]
        shorter.pop(0)
        shorter[0].mul_(2)
        without = [grad, grad.clone()]
        del without[0]
        without[0].mul_(2)
        emptied = [grad]
        emptied.clear()
        emptied.append(grad.clone())
        emptied[0].mul_(2)
        renewed = {"way": grad}
        renewed.update(way=grad.clone())
        renewed["way"].mul_(2)
        for name in {grad: 1}:
            print(name)
        return turned[0]
