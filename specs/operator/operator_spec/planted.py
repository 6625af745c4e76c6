"""Bugs in kernels, real and fake: each names the clause that must notice it."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.library import custom_op

SPEC = "Operator"


def inputs():
    """One matrix, in double precision."""
    yield (torch.linspace(-1, 1, 6, dtype=torch.float64).view(2, 3).requires_grad_(),)


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


@custom_op("operator_spec_planted::of_two_rows", mutates_args=())
def fake_of_one_size(x: Tensor) -> Tensor:
    """The fake kernel has the sizes that its author tried.

    Breaks: Operator.fake.meta
    """
    return (x * 2).contiguous()


fake_of_one_size.register_fake(lambda x: x.new_empty((2, 3)))


@custom_op("operator_spec_planted::product", mutates_args=())
def fake_in_another_dtype_under_autocast(x: Tensor) -> Tensor:
    """The kernel multiplies matrices, which autocast does in half precision; the fake one knows nothing of that.

    Breaks: Operator.autocast.meta
    """
    return x @ x.mT


fake_in_another_dtype_under_autocast.register_fake(lambda x: x.new_empty((x.shape[0], x.shape[0])))


@custom_op("operator_spec_planted::looked_up", mutates_args=())
def size_as_a_number(x: Tensor) -> Tensor:
    """The fake kernel makes a number of a size, so that each size is compiled anew.

    Breaks: Operator.compile.fullgraph
    """
    return x.sum(-1)


size_as_a_number.register_fake(lambda x: x.new_empty([int(size) for size in x.shape[:-1]]))


@custom_op("operator_spec_planted::for_cpu", mutates_args=())
def kernel_for_the_cpu_of_its_own_mind(x: Tensor) -> Tensor:
    """The kernel for the CPU has the other sign at zero and below.

    Breaks: Operator.kernel.agree
    """
    return x * 2


kernel_for_the_cpu_of_its_own_mind.register_fake(torch.empty_like)
kernel_for_the_cpu_of_its_own_mind.register_kernel("cpu", lambda x: (x * 2).abs())
