"""Tests, matches and loops of which the ways exclude each other."""

from torch.autograd import Function


class GreaterOrNot(Function):
    @staticmethod
    def forward(ctx, x, k):
        if k > 1:
            ctx.save_for_backward(x)
        if k <= 1:
            ctx.save_for_backward(x * 1)
        return x * k


class LessOrNot(Function):
    @staticmethod
    def forward(ctx, x, k):
        if k < 1:
            ctx.save_for_backward(x)
        if 1 <= k:
            ctx.save_for_backward(x * 1)
        return x * k


class BelowAtAndAbove(Function):
    @staticmethod
    def forward(ctx, x, k):
        if k < 0:
            ctx.save_for_backward(x)
        if 0 == k:
            ctx.save_for_backward(x * 1)
        if k > 0:
            ctx.save_for_backward(x * 2)
        return x * k


class Members(Function):
    @staticmethod
    def forward(ctx, x, mode, modes):
        if mode is modes.Mode.INPUT:
            ctx.save_for_backward(x)
        result = x.exp()
        if mode is modes.Mode.OUTPUT:
            ctx.save_for_backward(result)
        return result


class OneOfThese(Function):
    @staticmethod
    def forward(ctx, x, mode):
        if mode in ("sum", "mean"):
            ctx.save_for_backward(x)
        result = x.exp()
        if mode == "none":
            ctx.save_for_backward(result)
        return result


class NoneOrTrue(Function):
    @staticmethod
    def forward(ctx, x, bias):
        if bias:
            ctx.save_for_backward(x)
        if bias is None:
            ctx.save_for_backward(x * 1)
        return x * 2


class Matches(Function):
    @staticmethod
    def forward(ctx, x, mode):
        match mode:
            case "input":
                ctx.save_for_backward(x)
        result = x.exp()
        match mode:
            case "output" | "result":
                ctx.save_for_backward(result)
        return result


class FirstThatFits(Function):
    @staticmethod
    def forward(ctx, x, sizes):
        while True:
            if sizes:
                ctx.save_for_backward(x)
                break
            ctx.save_for_backward(x * 1)
            break
        return x * 2


class SkipsTheRest(Function):
    @staticmethod
    def forward(ctx, x, sizes):
        for size in sizes:
            if size > 1:
                ctx.save_for_backward(x)
                break
        else:
            ctx.save_for_backward(x * 1)
        return x * 2


class NewNameInACase(Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        own = grad
        match grad.clone(), 1:
            case own, _:
                own.mul_(2)
        return grad * 2


class FreshEachRound(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        total = None
        for part in (grad, grad):
            if total is None:
                total = part.clone()
                continue
            total += part
        for _ in range(2):
            grad = grad * x
            grad.mul_(2)
        return total
