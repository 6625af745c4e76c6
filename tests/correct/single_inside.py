"""Correct Functions that compute in a lower precision than their inputs have."""

from __future__ import annotations

import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from conformance import Subject
from tests.samples import of_shapes

SPEC = "Function"

inputs = of_shapes((5, 70), (70, 90))


class MatmulInSingle(Function):
    """Multiplies matrices in single precision, forward and backward."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x, w):
        return (x.float() @ w.float()).double()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad):
        x, w = ctx.saved_tensors
        return (grad.float() @ w.float().T).double(), (x.float().T @ grad.float()).double()


class ScaledMatmulInSingle(MatmulInSingle):
    """Multiplies matrices in single precision and scales in double: the result is not a single-precision number."""

    @staticmethod
    def forward(x, w):
        return 1.7 * MatmulInSingle.forward(x, w)

    @staticmethod
    def backward(ctx, grad):
        return tuple(1.7 * gradient for gradient in MatmulInSingle.backward(ctx, grad))


class BackwardOfMatmulInSingle(MatmulInSingle):
    """Multiplies matrices in double precision forward, and in single precision backward."""

    @staticmethod
    def forward(x, w):
        return x @ w

    @staticmethod
    def backward(ctx, grad):
        return tuple(gradient.to(grad.dtype) for gradient in MatmulInSingle.backward(ctx, grad))


class TwoLossesInSingle(Function):
    """Returns two results from scores in single precision; backward skips the one that is not in the loss."""

    inputs = of_shapes((6, 3), (7, 3))

    @staticmethod
    def forward(ctx, x, w):
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(x, w)
        logs = (x @ w.T).float().log_softmax(-1)
        return logs[:, 0].clone(), -(logs.exp() * logs).sum(-1).double()

    @staticmethod
    def backward(ctx, grad_log, grad_entropy):
        x, w = ctx.saved_tensors
        logs = (x @ w.T).float().log_softmax(-1)
        shares, of_scores = logs.exp(), None
        if grad_log is not None:
            of_scores = -shares * grad_log[:, None]
            of_scores[:, 0] += grad_log
        if grad_entropy is not None:
            entropy = -(shares * logs).sum(-1, keepdim=True)
            part = -shares * (logs + entropy) * grad_entropy[:, None]
            # Alone it stays in double precision; added to what is in single, it is rounded.
            of_scores = part if of_scores is None else of_scores.add_(part)
        if of_scores is None:
            return None, None
        of_scores = of_scores.to(x.dtype)
        return of_scores @ w, of_scores.T @ x


class MatmulInHalf(Function):
    """Multiplies matrices in bfloat16, for inputs in single precision."""

    generate_vmap_rule = True

    @staticmethod
    def inputs():
        yield torch.randn(5, 70, requires_grad=True), torch.randn(70, 90, requires_grad=True)

    @staticmethod
    def forward(x, w):
        return (x.bfloat16() @ w.bfloat16()).to(x.dtype)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad):
        x, w = (saved.bfloat16() for saved in ctx.saved_tensors)
        return (grad.bfloat16() @ w.T).to(grad.dtype), (x.T @ grad.bfloat16()).to(grad.dtype)


class ScaledRows(Function):
    """Scales columns in single precision, and sums the gradient of the scales over rows there."""

    inputs = of_shapes((50, 40), (40,))

    @staticmethod
    def forward(x, scale):
        return (x.float() * scale.float()).double()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx, grad):
        x, scale = ctx.saved_tensors
        return (grad.float() * scale.float()).double(), (grad.float() * x.float()).sum(0).double()

    @staticmethod
    def jvp(ctx, x_tangent, scale_tangent):
        x, scale = ctx.saved_tensors
        return (x.float() * scale_tangent.float() + x_tangent.float() * scale.float()).double()


class RootMeanSquareNorm(Function):
    """Normalizes rows in single precision, and scales them in the dtype of its inputs."""

    generate_vmap_rule = True

    inputs = of_shapes((50, 70), (70,))

    @staticmethod
    def forward(x, scale):
        inverse = x.float().square().mean(-1, keepdim=True).rsqrt()
        return (x.float() * inverse).to(x.dtype) * scale, inverse

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs, output[1])
        ctx.mark_non_differentiable(output[1])

    @staticmethod
    @once_differentiable  # the inverse counts as a constant
    def backward(ctx, grad, _):
        x, scale, inverse = ctx.saved_tensors
        normal = x.float() * inverse
        inner = (grad * scale).float()
        gradient = (inner - normal * (inner * normal).mean(-1, keepdim=True)) * inverse
        return gradient.to(x.dtype), (grad * normal.to(grad.dtype)).sum(0)


DeclaredMatmul = Subject(
    MatmulInSingle, inputs=inputs, formula=lambda args, grads: (grads[0] @ args[1].T, args[0].T @ grads[0])
)
