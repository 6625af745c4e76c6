"""Tensors of backward's own, by operations that look like views, and containers of which one item is changed."""

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
