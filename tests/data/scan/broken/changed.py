"""In-place changes of what belongs to others, and gradients cut off from their graph."""

import torch
import torch.distributed as dist
from torch.autograd import Function


class ByAMethod(Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output.mul_(2)  # expect: Function.backward.grads-untouched certain


class ByAnOperator(Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, grad_output):
        grad_output *= 2  # expect: Function.backward.grads-untouched certain
        return grad_output


class ThroughAView(Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, grad_output):
        flat = grad_output.view(-1)
        flat[0] = 0  # expect: Function.backward.grads-untouched certain
        return grad_output


class ThroughContiguous(Function):
    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        return x.clone()

    @staticmethod
    def backward(ctx, grad_output):
        gradient = grad_output.contiguous()
        # expect: Function.backward.double likely
        dist.all_reduce(gradient, group=ctx.group)  # expect: Function.backward.grads-untouched likely
        return gradient, None


class OfAny(Function):
    @staticmethod
    def forward(ctx, *xs):
        return tuple(x.clone() for x in xs)

    @staticmethod
    def backward(ctx, *gradients):
        for gradient in gradients:
            gradient.clamp_(-1, 1)  # expect: Function.backward.grads-untouched certain
        return gradients


class ByOut(Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, grad_output):
        torch.neg(grad_output, out=grad_output)  # expect: Function.backward.grads-untouched certain
        return grad_output


class UnmarkedInput(Function):
    @staticmethod
    def forward(ctx, x):
        x.add_(1)  # expect: Function.mark_dirty.complete likely
        return x


class OtherInputMarked(Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.mark_dirty(x)
        x.add_(1)
        y.add_(1)  # expect: Function.mark_dirty.complete likely
        return x, y


class CutByDetach(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.exp()

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        gradient = grad_output.detach()  # expect: Function.backward.double likely
        return gradient * x.exp()


class CutByData(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.exp()

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return grad_output * x.data.exp()  # expect: Function.backward.double likely


class GatherWithoutAnswer(Function):
    @staticmethod
    def forward(ctx, x):
        gathered = [torch.empty_like(x) for _ in range(dist.get_world_size())]
        dist.all_gather(gathered, x)
        return torch.cat(gathered)

    @staticmethod
    def backward(ctx, grad_output):  # expect: Function.backward.gradient possible
        return grad_output.chunk(dist.get_world_size())[dist.get_rank()]


def add_up(x):
    dist.all_reduce(x)
    return x


class SumWithoutAnswer(Function):
    @staticmethod
    def forward(ctx, x):
        return add_up(x.clone())

    @staticmethod
    def backward(ctx, grad_output):  # expect: Function.backward.gradient possible
        return grad_output


class CancelsInPart(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, grad_output):
        plain = grad_output.detach()  # expect: Function.backward.double likely
        return grad_output + 3 * plain + plain - plain
