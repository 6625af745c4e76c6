"""Parameters that leave room for what PyTorch hands over."""

from torch.autograd import Function


class Open(Function):
    @staticmethod
    def forward(ctx, *inputs):
        return inputs[0] * 2, inputs[1] * 3

    @staticmethod
    def backward(ctx, *grads):
        return grads[0] * 2, grads[1] * 3

    @staticmethod
    def jvp(ctx, *tangents):
        return tangents[0] * 2, tangents[1] * 3


class Defaults(Function):
    @staticmethod
    def forward(x, factor=2.0, places=None):
        return x * factor

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.factor = inputs[1]

    @staticmethod
    def backward(ctx, grad, unused=None):
        return grad * ctx.factor, None, None

    @staticmethod
    def jvp(ctx, tangent, _, __):
        return tangent * ctx.factor


class OneOrTwo(Function):
    @staticmethod
    def forward(ctx, x, both):
        ctx.both = both
        if both:
            return x * 2, x * 3
        return x * 2

    @staticmethod
    def backward(ctx, first, second=None):
        return (first * 2 + second * 3 if ctx.both else first * 2), None


class ManyAsAList(Function):
    @staticmethod
    def forward(ctx, x):
        outputs = [x * 2, x * 3]
        return tuple(outputs)

    @staticmethod
    def backward(ctx, first, second):
        return first * 2 + second * 3


class CalledForward(Function):
    @staticmethod
    def forward(context_length, x):
        return x[:context_length]

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.length, x = inputs
        ctx.rows = len(x)

    @staticmethod
    def backward(ctx, grad):
        whole = grad.new_zeros(ctx.rows, *grad.shape[1:])
        whole[: ctx.length] = grad
        return None, whole


class OneForm(Function):
    @staticmethod
    def forward(x, y):
        return x * y


class OtherHalf(OneForm):
    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_forward(*inputs)

    @staticmethod
    def jvp(ctx, x_tangent, y_tangent):
        x, y = ctx.saved_tensors
        return x_tangent * y + x * y_tangent
