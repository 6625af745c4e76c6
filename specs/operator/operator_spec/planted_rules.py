"""Bugs in what is registered beside kernels: formulas, rules for vmap and autocast, tags."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.autograd import Function
from torch.library import Library, custom_op

from operator_spec import planted

SPEC = "Operator"
inputs = planted.inputs
LIBRARY = Library("operator_spec_planted", "FRAGMENT")


def _keep(ctx, inputs, output):
    ctx.save_for_backward(inputs[0])


def _differentiate(ctx, grad):
    (x,) = ctx.saved_tensors
    return 2 * x * grad


def _without_custom_op(kernel):
    LIBRARY.define(f"{kernel.__name__}(Tensor x) -> Tensor")
    LIBRARY.impl(kernel.__name__, kernel, "CPU")
    LIBRARY.impl(kernel.__name__, torch.empty_like, "Meta")
    return getattr(torch.ops.operator_spec_planted, kernel.__name__).default


@_without_custom_op
def gradients_of_its_pieces(x: Tensor) -> Tensor:
    """Nothing is registered for autograd, so that of the kernel's own operations shows through.

    Breaks: Operator.autograd.registered
    """
    return x * x


@custom_op("operator_spec_planted::through_numpy", mutates_args=())
def formula_through_numpy(x: Tensor) -> Tensor:
    """The formula leaves PyTorch.

    Breaks: Operator.autograd.traceable
    """
    return x * x


def _through_numpy(ctx, grad):
    (x,) = ctx.saved_tensors
    return torch.from_numpy(2 * x.numpy(force=True) * grad.numpy(force=True))


formula_through_numpy.register_fake(torch.empty_like)
formula_through_numpy.register_autograd(_through_numpy, setup_context=_keep)


@custom_op("operator_spec_planted::row_sums", mutates_args=())
def rule_in_the_wrong_dimension(x: Tensor) -> Tensor:
    """The rule says where samples were, and not where they are.

    Breaks: Operator.vmap.batched
    """
    return x.sum(-1)


rule_in_the_wrong_dimension.register_fake(lambda x: x.new_empty(x.shape[:-1]))
rule_in_the_wrong_dimension.register_vmap(lambda info, in_dims, x: (rule_in_the_wrong_dimension(x), 0))


@custom_op("operator_spec_planted::power", mutates_args=())
def formula_without_keyword_only_inputs(x: Tensor, *, power: int = 2) -> Tensor:
    """setup_context has no parameter for the keyword-only argument.

    Breaks: Operator.autograd.keyword-only
    """
    return x**power


formula_without_keyword_only_inputs.register_fake(lambda x, *, power=2: torch.empty_like(x))
formula_without_keyword_only_inputs.register_autograd(_differentiate, setup_context=_keep)


def _tagged(kernel):
    """Register an operator that changes its argument, as a library may that does not use custom_op."""
    name = kernel.__name__
    LIBRARY.define(f"{name}(Tensor(a!) x) -> Tensor(a!)", tags=[torch.Tag.inplace])
    LIBRARY.impl(name, kernel, "CompositeExplicitAutograd")
    return getattr(torch.ops.operator_spec_planted, name).default


@_tagged
def returns_a_copy_of_what_it_changed(x: Tensor) -> Tensor:
    """Tagged inplace, it returns another tensor than it changed.

    Breaks: Operator.autograd.out
    """
    x.mul_(2)
    return x.clone()


@custom_op("operator_spec_planted::parts", mutates_args=())
def one_dimension_for_two_results(x: Tensor) -> tuple[Tensor, Tensor]:
    """The rule has one out_dim for two results.

    Breaks: Operator.vmap.out-dims
    """
    return x * 2, x * 3


one_dimension_for_two_results.register_fake(lambda x: (torch.empty_like(x), torch.empty_like(x)))
one_dimension_for_two_results.register_vmap(lambda info, in_dims, x: (one_dimension_for_two_results(x), in_dims[0]))


@custom_op("operator_spec_planted::by_numpy", mutates_args=())
def rule_for_a_dtype_that_the_kernel_refuses(x: Tensor) -> Tensor:
    """Autocast makes bfloat16 of the argument, and NumPy has no such thing.

    Breaks: Operator.autocast.rule
    """
    return torch.from_numpy(2 * x.numpy())


rule_for_a_dtype_that_the_kernel_refuses.register_fake(lambda x: torch.empty_like(x))
rule_for_a_dtype_that_the_kernel_refuses.register_autocast("cpu", torch.bfloat16)


class _Square(Function):
    """In combined form, which torch.func refuses."""

    @staticmethod
    def forward(ctx, x, kernel):
        ctx.save_for_backward(x)
        with torch._C._AutoDispatchBelowAutograd():
            return kernel(x)

    @staticmethod
    def backward(ctx, grad):
        return _differentiate(ctx, grad), None


def _with_a_kernel_for_autograd(differentiable):
    """Register an operator with a kernel of its own for autograd."""

    def registered(kernel):
        name = kernel.__name__
        LIBRARY.define(f"{name}(Tensor x) -> Tensor")
        LIBRARY.impl(name, kernel, "CompositeExplicitAutograd")
        LIBRARY.impl(name, torch.empty_like, "Meta")
        overload = getattr(torch.ops.operator_spec_planted, name).default
        LIBRARY.impl(name, lambda x: differentiable(overload, x), "Autograd")
        return overload

    return registered


def _below(overload, x):
    with torch._C._AutoDispatchBelowAutograd():
        return overload(x)


def _only_if_it_requires_grad(overload, x):
    return _Square.apply(x, overload) if x.requires_grad else _below(overload, x)


def _without_where_that_raises(overload, x):
    try:
        return _Square.apply(x, overload)
    except RuntimeError:
        if not x.requires_grad:
            raise
        return _below(overload, x)


@_with_a_kernel_for_autograd(_only_if_it_requires_grad)
def tangents_of_zero(x: Tensor) -> Tensor:
    """Its kernel for autograd asks for requires_grad alone, which tangents do not set.

    Breaks: Operator.jvp.refused
    """
    return x * x


@_with_a_kernel_for_autograd(_without_where_that_raises)
def gradients_lost_under_transforms(x: Tensor) -> Tensor:
    """Where its Function raises, as under torch.func.grad, it goes on without one.

    Breaks: Operator.func.transforms
    """
    return x * x
