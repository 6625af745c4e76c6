"""What backward takes away from the next backward, and what it makes up."""

from torch.autograd import Function


class DeletesWhatItReads(Function):
    @staticmethod
    def forward(ctx, x, plan):
        ctx.plan = plan
        return plan.run(x)

    @staticmethod
    def backward(ctx, grad_output):
        gradient = ctx.plan.back(grad_output)
        del ctx.plan  # expect: Function.backward.repeatable certain
        return gradient, None


class ForgetsOnOneWay(Function):
    @staticmethod
    def forward(ctx, x, plan, keep):
        ctx.plan, ctx.keep = plan, keep
        return plan.run(x)

    @staticmethod
    def backward(ctx, grad_output):
        gradient = ctx.plan.back(grad_output)
        if not ctx.keep:
            ctx.plan = None  # expect: Function.backward.repeatable likely
        return gradient, None, None


class ScalesWhatItSaved(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x.exp())
        return x.exp()

    @staticmethod
    def backward(ctx, grad_output):
        (gradient,) = ctx.saved_tensors
        return gradient.mul_(grad_output)  # expect: Function.backward.repeatable certain


class LooksAtNoGradient(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.square().sum()

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return 2 * x  # expect: Function.backward.gradient possible
