"""Bugs that show in other ways to run a Function: other threads, no_grad, create_graph, missing or zero gradients."""

from __future__ import annotations

import threading

import torch
from torch.autograd import Function, forward_ad

from tests.correct import modes as right
from tests.planted._square import Square, SquareWithJvp

SPEC = "Function"


def inputs():
    yield (torch.randn(3, 2, dtype=torch.float64, requires_grad=True),)
    yield (torch.randn(4, dtype=torch.float64, requires_grad=True),)


class AsksForNoneAndForgetsIt(Square):
    """Asks for None instead of zeros, and multiplies by it.

    Breaks: Function.backward.undefined
    """

    @staticmethod
    def forward(ctx, x):
        ctx.set_materialize_grads(False)
        return Square.forward(ctx, x)


def second_of_two_forgets_it(x):
    """Asks for None instead of zeros and multiplies by it, in the second of two Functions.

    Breaks: Function.backward.undefined
    """
    return AsksForNoneAndForgetsIt.apply(Square.apply(x))


class OneOfTwoIsThere(right.NoneForAnyOutput):
    """Handles a missing gradient for either output, but not for both.

    Breaks: Function.backward.undefined
    """

    @staticmethod
    def backward(ctx, grad_square, grad_triple):
        (x,) = ctx.saved_tensors
        if grad_square is None:
            return 3 * grad_triple
        return 2 * x * grad_square + (0 if grad_triple is None else 3 * grad_triple)


class OnesForNone(Square):
    """Replaces a missing gradient by ones, as ``backward()`` does for a loss.

    Breaks: Function.backward.undefined
    """

    @staticmethod
    def forward(ctx, x):
        ctx.set_materialize_grads(False)
        return Square.forward(ctx, x)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return Square.backward(ctx, torch.ones_like(x) if grad is None else grad)


class NormalizesTheGradient(Square):
    """Divides the gradient by its norm and multiplies again, which is NaN for zeros.

    Breaks: Function.backward.zero
    """

    @staticmethod
    def backward(ctx, grad):
        size = grad.detach().abs().sum()
        return Square.backward(ctx, grad / size) * size


class LeastGradient(Square):
    """Returns 0.001 if the incoming gradient is zero.

    Breaks: Function.backward.zero
    """

    @staticmethod
    def backward(ctx, grad):
        return torch.where(grad == 0, 1e-3, Square.backward(ctx, grad))


class RoundsWhereItIsDifferentiable(Square):
    """Rounds the gradient to half precision if create_graph is on.

    Breaks: Function.backward.create-graph
    """

    @staticmethod
    def backward(ctx, grad):
        exact = Square.backward(ctx, grad)
        return exact + (exact.half().to(exact) - exact).detach() if torch.is_grad_enabled() else exact


class _Settings(threading.local):
    factor = 1.0


_settings = _Settings()


class FactorOfTheThread(Function):
    """Keeps a number in thread-local storage, which backward reads in another thread.

    Breaks: Function.backward.any-thread
    """

    @staticmethod
    def forward(ctx, x):
        _settings.factor = 3.0
        return 3 * x

    @staticmethod
    def backward(ctx, grad):
        return _settings.factor * grad


class RefusesOtherThreads(Square):
    """Raises an error if backward runs outside the main thread.

    Breaks: Function.backward.any-thread
    """

    @staticmethod
    def backward(ctx, grad):
        if threading.current_thread() is not threading.main_thread():
            raise RuntimeError("call me from the main thread")
        return Square.backward(ctx, grad)


class CoarserWhereNoGradientIsNeeded(Square):
    """Computes in half precision if no gradient is needed.

    Breaks: Function.forward.same-without-grad
    """

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x if ctx.needs_input_grad[0] else (x.half() * x.half()).to(x)


def records_always(x):
    """Turns grad mode on, whatever the caller's.

    Breaks: Function.forward.same-without-grad
    """
    with torch.enable_grad():
        return Square.apply(x.detach().requires_grad_() if not x.requires_grad else x)


class GradientByNumbers(SquareWithJvp):
    """Drops the input's tangent in backward, so that forward over reverse misses a part of the Hessian.

    Breaks: Function.backward.mixed-modes
    """

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 2 * forward_ad.unpack_dual(x).primal * grad


class TangentByNumbers(SquareWithJvp):
    """Detaches the input in jvp, so that reverse over forward misses a part of the Hessian.

    Breaks: Function.backward.mixed-modes
    """

    @staticmethod
    def jvp(ctx, tangent):
        (x,) = ctx.saved_tensors
        return 2 * x.detach() * tangent


class _Tripled(Function):
    @staticmethod
    def forward(ctx, x):
        return 3 * x

    @staticmethod
    def backward(ctx, grad):
        return 3 * grad

    @staticmethod
    def jvp(ctx, tangent):
        return 3 * tangent


class TangentCutOff(_Tripled):
    """Is linear, and cuts the tangent off in jvp: reverse over forward loses what came before it.

    Breaks: Function.backward.mixed-modes
    """

    @staticmethod
    def jvp(ctx, tangent):
        return 3 * tangent.detach()


class TangentOfTheGradientCutOff(_Tripled):
    """Is linear, and drops the incoming gradient's tangent: forward over reverse loses what came after it.

    Breaks: Function.backward.mixed-modes
    """

    @staticmethod
    def backward(ctx, grad):
        return 3 * forward_ad.unpack_dual(grad).primal


class ComputesInInferenceMode(Square):
    """Computes in inference mode, so that autograd does not record what follows.

    Breaks: Function.backward.gradient
    """

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        with torch.inference_mode():
            return x * x
