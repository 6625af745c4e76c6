"""In-place changes of one's own tensors, and backward passes that say they are differentiable once."""

import torch
import torch.distributed as dist
from torch.autograd import Function
from torch.autograd.function import once_differentiable


class OwnCopy(Function):
    @staticmethod
    def forward(ctx, x):
        result = x.clone()
        result.add_(1)
        result *= 2
        return result

    @staticmethod
    def backward(ctx, grad_output):
        gradient = grad_output.clone()
        gradient[0] = 0
        gradient *= 2
        grad_output = grad_output * 2
        grad_output += gradient
        return grad_output


class ListOfGradients(Function):
    @staticmethod
    def forward(ctx, *xs):
        return tuple(x.clone() for x in xs)

    @staticmethod
    def backward(ctx, *gradients):
        gradients = list(gradients)
        gradients[0] = gradients[0] * 2
        return tuple(gradients)


class Masked(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x > 0)
        return x.relu()

    @staticmethod
    def backward(ctx, grad_output):
        (mask,) = ctx.saved_tensors
        picked = grad_output[mask]
        picked.mul_(2)
        gradient = torch.zeros_like(grad_output)
        gradient[mask] = picked
        return gradient


class Marked(Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.mark_dirty(x, y)
        x.add_(1)
        y.add_(1)
        return x, y


class NumbersAndLists(Function):
    @staticmethod
    def forward(ctx, x, count, names):
        count += 1
        names[0] = "first"
        names += ["more"]
        return x * count


class OnceOnly(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.exp()

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return grad_output.detach() * x.data.exp()


class ShapesAndMasksOnly(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.relu()

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        rows = x.detach().shape[0]
        mask = x.data > 0
        scratch = torch.zeros_like(grad_output.detach())
        return (grad_output * mask / rows) + scratch


class SumBothWays(Function):
    @staticmethod
    def forward(ctx, x):
        result = x.clone()
        dist.all_reduce(result)
        return result

    @staticmethod
    def backward(ctx, grad_output):
        return Through.apply(grad_output)


class Through(Function):
    @staticmethod
    def forward(ctx, x):
        result = x.clone()
        dist.all_reduce(result)
        return result

    @staticmethod
    def backward(ctx, grad_output):
        return Through.forward(None, grad_output)


def widened(weight, scale, dtype):
    weight = weight.to(dtype)
    return weight.mul_(scale)


class WidensWhatItSaved(Function):
    @staticmethod
    def forward(ctx, x, weight, scale):
        ctx.save_for_backward(weight, scale)
        return x @ (weight.to(x.dtype) * scale).t()

    @staticmethod
    def backward(ctx, grad_output):
        weight, scale = ctx.saved_tensors
        return grad_output @ widened(weight, scale, grad_output.dtype), None, None


class PyTorchsOwnBackward(Function):
    @staticmethod
    def forward(ctx, x, mask):
        ctx.save_for_backward(mask)
        return x * mask

    @staticmethod
    def backward(ctx, grad_output):
        (mask,) = ctx.saved_tensors
        summed = grad_output.sum(0)
        dist.all_reduce(summed)
        return torch.native_dropout_backward(grad_output, mask, summed), None
