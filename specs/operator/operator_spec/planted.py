"""Bugs in operators: each names the clause that must notice it."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.library import Library, custom_op

SPEC = "Operator"
_LIBRARY = Library("operator_spec_planted", "FRAGMENT")


def inputs():
    """One matrix, in double precision."""
    yield (torch.linspace(-1, 1, 6, dtype=torch.float64).view(2, 3).requires_grad_(),)


def _keep(ctx, inputs, output):
    ctx.save_for_backward(inputs[0])


def _differentiate(ctx, grad):
    (x,) = ctx.saved_tensors
    return 2 * x * grad


@custom_op("operator_spec_planted::zeroes", mutates_args=())
def zeroes_its_argument(x: Tensor) -> Tensor:
    """The argument is used as room to work in.

    Breaks: Operator.schema.mutates
    """
    y = x * x
    x.zero_()
    return y


zeroes_its_argument.register_fake(torch.empty_like)


@custom_op("operator_spec_planted::sorts_strided", mutates_args=())
def changes_only_what_is_strided(x: Tensor) -> Tensor:
    """What is contiguous is copied first; anything else is changed where it lies.

    Breaks: Operator.schema.mutates
    """
    y = x.clone() if x.is_contiguous() else x
    return y.abs_().clone()


changes_only_what_is_strided.register_fake(torch.empty_like)


@custom_op("operator_spec_planted::same", mutates_args=())
def returns_its_argument(x: Tensor) -> Tensor:
    """There is nothing to do, so nothing is copied.

    Breaks: Operator.schema.no-alias
    """
    return x


returns_its_argument.register_fake(torch.empty_like)


@custom_op("operator_spec_planted::packed", mutates_args=())
def returns_the_copy_only_if_it_made_one(x: Tensor) -> Tensor:
    """``contiguous`` copies only what is not.

    Breaks: Operator.schema.no-alias
    """
    return x.contiguous()


returns_the_copy_only_if_it_made_one.register_fake(lambda x: torch.empty(x.shape, dtype=x.dtype))


@custom_op("operator_spec_planted::halves", mutates_args=())
def two_results_of_one_memory(x: Tensor) -> tuple[Tensor, Tensor]:
    """Both halves are views of one tensor.

    Breaks: Operator.schema.no-alias
    """
    y = x * 2
    return y[0], y[1]


two_results_of_one_memory.register_fake(lambda x: (torch.empty_like(x[0]), torch.empty_like(x[0])))


@custom_op("operator_spec_planted::transposed", mutates_args=())
def fake_sizes_the_other_way_round(x: Tensor) -> Tensor:
    """The fake kernel forgets that the result is transposed.

    Breaks: Operator.fake.meta
    """
    return x.t().clone(memory_format=torch.contiguous_format)


fake_sizes_the_other_way_round.register_fake(torch.empty_like)


@custom_op("operator_spec_planted::laid_out", mutates_args=())
def fake_strides_of_the_argument(x: Tensor) -> Tensor:
    """The real result is always contiguous, the fake one laid out like the argument.

    Breaks: Operator.fake.meta
    """
    return (x * 2).contiguous()


fake_strides_of_the_argument.register_fake(torch.empty_like)


@custom_op("operator_spec_planted::single", mutates_args=())
def fake_in_another_dtype(x: Tensor) -> Tensor:
    """The fake result has the default dtype.

    Breaks: Operator.fake.meta
    """
    return x * 2


fake_in_another_dtype.register_fake(lambda x: torch.empty(x.shape))


@custom_op("operator_spec_planted::unregistered", mutates_args=())
def no_fake_kernel(x: Tensor) -> Tensor:
    """Nobody wrote a fake kernel.

    Breaks: Operator.fake.meta
    """
    return x * 2


@custom_op("operator_spec_planted::looks", mutates_args=())
def fake_looks_at_the_data(x: Tensor) -> Tensor:
    """The fake kernel has a branch on a value.

    Breaks: Operator.fake.no-data
    """
    return x * 2


@fake_looks_at_the_data.register_fake
def _(x):
    return x.new_empty((int((x > 0).any()) + 1, 3))


def _without_custom_op(kernel):
    _LIBRARY.define(f"{kernel.__name__}(Tensor x) -> Tensor")
    _LIBRARY.impl(kernel.__name__, kernel, "CPU")
    _LIBRARY.impl(kernel.__name__, torch.empty_like, "Meta")
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
