"""Bugs in the mathematics of an operator, which it owes like every Function: each names the clause that it breaks."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.library import custom_op

from operator_spec import planted

SPEC = "Operator"
inputs = planted.inputs


def _keep(ctx, inputs, output):
    ctx.save_for_backward(inputs[0])


@custom_op("operator_spec_planted::half_square", mutates_args=())
def half_of_the_gradient(x: Tensor) -> Tensor:
    """The formula has lost a factor of two.

    Breaks: Function.backward.gradient
    """
    return x * x


half_of_the_gradient.register_fake(torch.empty_like)
half_of_the_gradient.register_autograd(lambda ctx, grad: ctx.saved_tensors[0] * grad, setup_context=_keep)


@custom_op("operator_spec_planted::in_place_square", mutates_args=())
def formula_in_the_incoming_gradient(x: Tensor) -> Tensor:
    """The formula multiplies the gradient that it was handed, in place.

    Breaks: Function.backward.grads-untouched
    """
    return x * x


formula_in_the_incoming_gradient.register_fake(torch.empty_like)
formula_in_the_incoming_gradient.register_autograd(
    lambda ctx, grad: grad.mul_(2 * ctx.saved_tensors[0]), setup_context=_keep
)


@custom_op("operator_spec_planted::packed_square", mutates_args=())
def formula_that_reads_memory_in_order(x: Tensor) -> Tensor:
    """The formula takes incoming gradients for contiguous, as a kernel does that gets a pointer.

    Breaks: Function.backward.any-layout
    """
    return x * x


def _in_order(ctx, grad):
    (x,) = ctx.saved_tensors
    if grad.untyped_storage().nbytes() >= grad.numel() * grad.element_size():
        grad = grad.as_strided(grad.shape, torch.empty(grad.shape).stride())
    return 2 * x * grad


formula_that_reads_memory_in_order.register_fake(torch.empty_like)
formula_that_reads_memory_in_order.register_autograd(_in_order, setup_context=_keep)


@custom_op("operator_spec_planted::detached_square", mutates_args=())
def second_derivative_without_a_part(x: Tensor) -> Tensor:
    """What the formula saved is cut from the graph.

    Breaks: Function.backward.double
    """
    return x * x


second_derivative_without_a_part.register_fake(torch.empty_like)
second_derivative_without_a_part.register_autograd(
    lambda ctx, grad: 2 * ctx.saved_tensors[0].detach() * grad, setup_context=_keep
)
