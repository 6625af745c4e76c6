"""Correct operators, each written in its own way: no test may accuse them."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.library import custom_op, get_ctx

import operator_spec.reference
from conformance import Subject

SPEC = "Operator"
SEVEN = torch.linspace(-3, 3, 7, dtype=torch.float64)
MATRIX = torch.linspace(-1, 1, 6, dtype=torch.float64).view(2, 3)


@custom_op("operator_spec_correct::doubled", mutates_args=())
def _doubled(x: Tensor) -> Tensor:
    return x * 2


_doubled.register_fake(torch.empty_like)
without_a_formula = Subject(_doubled, spec="Operator", inputs=[(MATRIX,)])


@custom_op("operator_spec_correct::add_into", mutates_args=("x",))
def _add_into(x: Tensor, y: Tensor) -> None:
    x.add_(y)


_add_into.register_fake(lambda x, y: None)
in_place_and_nothing_returned = Subject(_add_into, spec="Operator", inputs=[(SEVEN.clone(), SEVEN)])


@custom_op("operator_spec_correct::positive", mutates_args=())
def _positive(x: Tensor) -> Tensor:
    return x[x > 0]


@_positive.register_fake
def _(x):
    return x.new_empty((get_ctx().new_dynamic_size(),))


sizes_that_depend_on_data = Subject(_positive, spec="Operator", inputs=[(SEVEN,)])


@custom_op("operator_spec_correct::first", mutates_args=())
def _first(x: Tensor, n: int) -> Tensor:
    return x[:n].clone()


_first.register_fake(lambda x, n: x.new_empty((n, *x.shape[1:])))
a_size_that_is_an_argument = Subject(_first, spec="Operator", inputs=[(SEVEN, 3)])


@custom_op("operator_spec_correct::sin_and_cos", mutates_args=())
def _sin_and_cos(x: Tensor) -> tuple[Tensor, Tensor]:
    return x.sin(), x.cos()


def _keep(ctx, inputs, output):
    ctx.save_for_backward(inputs[0])


def _differentiate(ctx, by_sin, by_cos):
    (x,) = ctx.saved_tensors
    return by_sin * x.cos() - by_cos * x.sin()


_sin_and_cos.register_fake(lambda x: (torch.empty_like(x), torch.empty_like(x)))
_sin_and_cos.register_autograd(_differentiate, setup_context=_keep)
_sin_and_cos.register_vmap(lambda info, in_dims, x: (_sin_and_cos(x), (in_dims[0], in_dims[0])))
two_results = Subject(_sin_and_cos, spec="Operator", inputs=[(SEVEN.clone().requires_grad_(),)])

by_its_overload = Subject(
    operator_spec.reference.scaled._opoverload, spec="Operator", inputs=[(MATRIX.clone().requires_grad_(), 0.5)]
)
of_pytorch_itself = Subject(torch.ops.aten.sin.default, spec="Operator", inputs=[(MATRIX.clone().requires_grad_(),)])


@custom_op("operator_spec_correct::scaled_by_name", mutates_args=())
def _scaled_by_name(x: Tensor, *, factor: float = 3.0, twice: bool = False) -> Tensor:
    return x * factor * (2 if twice else 1)


def _keep_by_name(ctx, inputs, keyword_only_inputs, output):
    ctx.factor = keyword_only_inputs["factor"] * (2 if keyword_only_inputs["twice"] else 1)


_scaled_by_name.register_fake(lambda x, *, factor=3.0, twice=False: torch.empty_like(x))
_scaled_by_name.register_autograd(lambda ctx, grad: grad * ctx.factor, setup_context=_keep_by_name)
keyword_only_arguments = Subject(
    _scaled_by_name,
    spec="Operator",
    inputs=[(MATRIX.clone().requires_grad_(), 0.5, True), (SEVEN.clone().requires_grad_(),)],
)


@custom_op("operator_spec_correct::double_", mutates_args=("x",), tags=torch.Tag.inplace)
def _double_in_place(x: Tensor) -> Tensor:
    return x.mul_(2)


in_place_and_returned = Subject(_double_in_place, spec="Operator", inputs=[(SEVEN.clone(),)])


@custom_op("operator_spec_correct::double_out", mutates_args=("out",), tags=torch.Tag.out)
def _double_out(x: Tensor, *, out: Tensor) -> Tensor:
    return torch.mul(x, 2, out=out)


out_variant = Subject(_double_out, spec="Operator", inputs=[(SEVEN, torch.zeros_like(SEVEN))])


@custom_op("operator_spec_correct::weighted_sum", mutates_args=())
def _weighted_sum(xs: list[Tensor], weights: list[float], bias: Tensor | None) -> Tensor:
    found = sum(x * weight for x, weight in zip(xs, weights, strict=True))
    return found if bias is None else found + bias


def _keep_weights(ctx, inputs, output):
    ctx.weights, ctx.biased = inputs[1], inputs[2] is not None


def _differentiate_sum(ctx, grad):
    return [grad * weight for weight in ctx.weights], None, grad.clone() if ctx.biased else None


_weighted_sum.register_fake(lambda xs, weights, bias: torch.empty_like(xs[0]))
_weighted_sum.register_autograd(_differentiate_sum, setup_context=_keep_weights)
tensor_list_and_optional_tensor = Subject(
    _weighted_sum,
    spec="Operator",
    inputs=[
        ([MATRIX.clone().requires_grad_(), MATRIX.clone().requires_grad_()], [0.5, 2.0], None),
        ([MATRIX.clone().requires_grad_()], [2.0], MATRIX.clone().requires_grad_()),
    ],
)


@custom_op("operator_spec_correct::product", mutates_args=())
def _product(x: Tensor, y: Tensor) -> Tensor:
    return x @ y


def _keep_both(ctx, inputs, output):
    ctx.save_for_backward(*inputs)


def _differentiate_product(ctx, grad):
    x, y = ctx.saved_tensors
    return grad @ y.mT, x.mT @ grad


def _product_of_batches(info, in_dims, x, y):
    x, y = (
        (tensor if dim is None else tensor.movedim(dim, 0)).expand(info.batch_size, -1, -1)
        for tensor, dim in zip((x, y), in_dims, strict=True)
    )
    return torch.bmm(x, y), 0


_product.register_fake(lambda x, y: x.new_empty((x.shape[0], y.shape[1])))
_product.register_autograd(_differentiate_product, setup_context=_keep_both)
_product.register_vmap(_product_of_batches)
_product.register_autocast("cpu", torch.bfloat16)
rules_for_vmap_and_autocast = Subject(
    _product, spec="Operator", inputs=[(MATRIX.clone().requires_grad_(), MATRIX.mT.clone().requires_grad_())]
)


@custom_op("operator_spec_correct::contiguous_alone", mutates_args=())
def _contiguous_alone(x: Tensor) -> Tensor:
    if not x.is_contiguous():
        raise ValueError("x must be contiguous")
    return x * 2


_contiguous_alone.register_fake(torch.empty_like)
_contiguous_alone.register_kernel("cpu", lambda x: x + x)
refuses_other_layouts = Subject(_contiguous_alone, spec="Operator", inputs=[(MATRIX,)])


@custom_op("operator_spec_correct::chosen", mutates_args=())
def _chosen(x: Tensor, index: Tensor) -> Tensor:
    return x.index_select(0, index)


_chosen.register_fake(lambda x, index: x.new_empty((index.shape[0], *x.shape[1:])))
whole_numbers = Subject(_chosen, spec="Operator", inputs=[(SEVEN, torch.tensor([2, 0, 5]))])
