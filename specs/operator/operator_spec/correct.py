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
