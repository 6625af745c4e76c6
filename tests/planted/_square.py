"""The square of a tensor, right in every respect: what bugs of one input derive from and change one thing of."""

from torch.autograd import Function


class Square(Function):
    """Right."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 2 * x * grad
