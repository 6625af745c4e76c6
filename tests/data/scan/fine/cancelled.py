"""A gradient that is cut off, and cancels out of what backward returns."""

from torch.autograd import Function


class AddedAndTakenAway(Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        plain = grad.detach()
        return 2 * grad + plain - plain


class TakenAwayAndAdded(Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return 2 * (grad - (grad.detach() - grad.detach()))


class TimesNothing(Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        difference = grad.detach() - 1
        return 2 * grad + 0 * difference


class DividedByItself(Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return 2 * grad * (grad.detach() / grad.detach())
