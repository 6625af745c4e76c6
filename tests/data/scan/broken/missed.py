"""Changes of gradients that come about by other ways than a plain line of assignments."""

from torch.autograd import Function


class MarkedElements(Function):
    @staticmethod
    def forward(ctx, x, mask):
        ctx.save_for_backward(mask)
        return x * mask

    @staticmethod
    def backward(ctx, grad):
        (mask,) = ctx.saved_tensors
        grad[~mask] *= 0  # expect: Function.backward.grads-untouched certain
        return grad, None


class FromTheEnd(Function):
    @staticmethod
    def forward(ctx, x):
        return 2 * x

    @staticmethod
    def backward(ctx, grad):
        last = grad[-1]
        last.mul_(2)  # expect: Function.backward.grads-untouched certain
        return grad


class PlusItself(Function):
    @staticmethod
    def forward(ctx, x):
        return 2 * x

    @staticmethod
    def backward(ctx, grad):
        same = +grad
        same.mul_(2)  # expect: Function.backward.grads-untouched certain
        return same
