"""Correct Functions in all forms in which one can be written."""

from __future__ import annotations

import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from conformance import Subject

SPEC = "Function"


def inputs():
    yield (torch.randn(3, 2, dtype=torch.float64, requires_grad=True),)
    yield (torch.randn((), dtype=torch.float64, requires_grad=True),)
    yield (torch.randn(2, 0, dtype=torch.float64, requires_grad=True),)
    yield (torch.randn(2, 3, requires_grad=True).t(),)


class Combined(Function):
    """Uses the combined form."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * x.cos()


class Separate(Function):
    """Uses the separate form, with a jvp."""

    @staticmethod
    def forward(x):
        return x.sin()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * x.cos()

    @staticmethod
    def jvp(ctx, tangent):
        (x,) = ctx.saved_tensors
        return tangent * x.cos()


class WithVjp(Function):
    """Defines vjp instead of backward."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    def vjp(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * x.cos()


class ClassMethods(Function):
    """Defines class methods instead of static methods."""

    @classmethod
    def forward(cls, ctx, x):
        ctx.save_for_backward(x)
        return cls.value(x)

    @classmethod
    def backward(cls, ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * x.cos()

    @staticmethod
    def value(x):
        return x.sin()


class PlainMethods(Function):
    """Defines plain functions instead of static methods."""

    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sin()

    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * x.cos()


class Inherited(Combined):
    """Inherits everything."""


class OnceDifferentiable(Function):
    """Saves an intermediate value, and says once_differentiable."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x.cos())
        return x.sin()

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        return grad * ctx.saved_tensors[0]


class TrailingNone(Function):
    """Returns one None more than there are inputs, which PyTorch accepts."""

    @staticmethod
    def forward(ctx, x):
        return x * 3

    @staticmethod
    def backward(ctx, grad):
        return grad * 3, None


class AppliesAnother(Function):
    """Applies another Function in forward, which saves on a ctx of its own."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return Combined.apply(Combined.apply(x))

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * x.sin().cos() * x.cos()


class Recomputes(Function):
    """Runs forward again inside backward, as checkpointing does."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sin() * x

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        with torch.enable_grad():
            again = x.detach().requires_grad_()
            y = again.sin() * again
        return torch.autograd.grad(y, again, grad)[0]


def _around_a_function(x):
    return Combined.apply(x * 2) + 1


def _without_a_function(x):
    return x.exp() * 2


class _Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.full((), 1.5, dtype=torch.float64))

    def forward(self, x):
        return Combined.apply(x * self.weight)


around_a_function = Subject(_around_a_function, inputs=inputs, name="around_a_function")
without_a_function = Subject(_without_a_function, inputs=inputs, name="without_a_function")
with_a_parameter = Subject(_Layer(), inputs=inputs, name="with_a_parameter")


class _StraightThrough(Function):
    @staticmethod
    def forward(ctx, x, scale):
        ctx.scale = scale
        return (x * scale).round()

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.scale, None


def _numbers():
    yield torch.randn(4, dtype=torch.float64, requires_grad=True), 3.0
    yield torch.randn(4, requires_grad=True), 0.5


straight_through = Subject(
    _StraightThrough,
    inputs=_numbers,
    formula=lambda args, grads: (grads[0] * args[1], None),
    name="straight_through",
)
through_an_adapter = Subject(
    Combined,
    inputs=inputs,
    call=lambda function, x: function.apply(x),
    name="a Function through an adapter",
)


class _Riding(Function):
    @staticmethod
    def forward(ctx, x, extra):
        ctx.save_for_backward(extra)
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        (extra,) = ctx.saved_tensors
        return grad, torch.ones_like(extra)


#: A loss of its own rides along: its gradient is there even where the result is empty, and that is declared.
RidingLoss = Subject(
    _Riding,
    inputs=lambda: [
        (
            torch.randn(3, 2, dtype=torch.float64, requires_grad=True),
            torch.randn(1, dtype=torch.float64, requires_grad=True),
        )
    ],
    gradient="declared",
    formula=lambda args, grads: (grads[0], torch.ones_like(args[1])),
)


class _Decaying(Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x, rate):
        return x.clone()

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, ctx.rate = inputs
        ctx.save_for_backward(x)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad + ctx.rate * x, None

    @staticmethod
    def jvp(ctx, tangent, _):
        return tangent.clone()


#: A decay that only backward knows is added to the gradient, so gradients are products with no Jacobian: neither rows
#: of one that are made apart nor a tangent, which is that of forward, can agree with them.
DecayInBackward = Subject(
    _Decaying,
    inputs=lambda: [(torch.randn(3, 2, dtype=torch.float64, requires_grad=True), 0.5)],
    gradient="declared",
    formula=lambda args, grads: (grads[0] + args[1] * args[0], None),
)


class _Clipping(Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x, most):
        return x.clone()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.most = inputs[1]

    @staticmethod
    def backward(ctx, grad):
        return grad.clamp(-ctx.most, ctx.most), None

    @staticmethod
    def jvp(ctx, tangent, _):
        return tangent.clone()


#: The same with a gradient that is clipped: the clipped rows of a Jacobian do not add up to the clipped gradient.
ClippedInBackward = Subject(
    _Clipping,
    inputs=lambda: [(torch.randn(3, 2, dtype=torch.float64, requires_grad=True), 0.5)],
    gradient="declared",
    formula=lambda args, grads: (grads[0].clamp(-args[1], args[1]), None),
)


class _Evening(Function):
    @staticmethod
    def forward(ctx, rows, weight):
        return rows.clone(), weight.clone()

    @staticmethod
    def backward(ctx, rows, weight):
        return rows, weight / (1 + rows.abs().mean(1).mean())


#: A gradient that is evened out by the mean size of the others; of no rows there is no mean, as the formula says.
EvenedByTheMean = Subject(
    _Evening,
    inputs=lambda: [
        (
            torch.randn(3, 2, dtype=torch.float64, requires_grad=True),
            torch.randn(4, dtype=torch.float64, requires_grad=True),
        )
    ],
    gradient="declared",
    formula=lambda args, grads: (grads[0], grads[1] / (1 + grads[0].abs().mean(1).mean())),
)
