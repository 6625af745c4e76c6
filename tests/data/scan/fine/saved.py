"""One call of save_for_backward on every way through."""

from torch.autograd import Function


class EitherOr(Function):
    @staticmethod
    def forward(ctx, x, y):
        if x.is_floating_point():
            ctx.save_for_backward(x)
        else:
            ctx.save_for_backward(y)
        return x * y


class EarlyReturn(Function):
    @staticmethod
    def forward(ctx, x, y):
        if y is None:
            ctx.save_for_backward(x)
            return x.clone()
        ctx.save_for_backward(x, y)
        return x * y


class OppositeTests(Function):
    @staticmethod
    def forward(ctx, x, training, mode):
        if training:
            ctx.save_for_backward(x)
        result = x * 2
        if not training:
            ctx.save_for_backward(result)
        return result


class OtherConstants(Function):
    @staticmethod
    def forward(ctx, x, mode):
        if mode == "input":
            ctx.save_for_backward(x)
        result = x.exp()
        if mode == "output":
            ctx.save_for_backward(result)
        return result


class Fallback(Function):
    @staticmethod
    def forward(ctx, x):
        try:
            result = x.exp()
        except RuntimeError:
            ctx.save_for_backward(x)
            return x
        ctx.save_for_backward(result)
        return result

    @staticmethod
    def backward(ctx, grad_output):
        Other.save_for_backward(grad_output)
        return grad_output


class Other:
    @staticmethod
    def save_for_backward(gradient): ...
