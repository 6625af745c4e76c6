"""Correct Functions of one input from which bugs derive, changing one member."""

from torch.autograd import Function


class Square(Function):
    """Squares; correct."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 2 * x * grad


class SquareSeparate(Function):
    """Squares in the separate form; correct."""

    @staticmethod
    def forward(x):
        return x * x

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 2 * x * grad


class SquareWithRule(SquareSeparate):
    """Squares with the generated vmap rule; correct."""

    generate_vmap_rule = True


class SquareWithJvp(SquareSeparate):
    """Squares with a jvp; correct."""

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def jvp(ctx, tangent):
        (x,) = ctx.saved_tensors
        return 2 * x * tangent
