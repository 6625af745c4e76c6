"""The formula: it exists, or differentiating says that it does not; and it can be traced."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from conformance.kit import expect
from conformance.kit.deviations import need
from conformance.kit.marks import clause
from operator_spec.spec import each_tensor, has_formula, overload_of, tensors_in
from operator_spec.variants import fresh

NO_FORMULA = "no formula is registered"


@clause("Operator.autograd.registered")
def test_without_a_formula_differentiating_raises(subject: Any, world: Any) -> None:
    """Without a formula, differentiating raises, and never returns the gradient of the kernel's own operations."""
    overload_of(subject.target)
    seen = False
    for sample in subject.samples(world):
        args = _leaves(sample.args)
        if has_formula(subject.target) or not any(tensor.requires_grad for tensor in tensors_in(args)):
            continue
        seen = True
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            error = _error_of(lambda given: _gradients(subject, given), args)
        expect.that(
            error is not None,
            f"differentiating without a formula, sample {sample.label}, raises",
            "it gives gradients, and PyTorch only warns",
            "an error; register_autograd registers a formula",
        )
    need(seen or has_formula(subject.target), "nothing can be differentiated")


@clause("Operator.autograd.traceable")
def test_forward_and_backward_run_on_fake_tensors(subject: Any, world: Any) -> None:
    """Gradients of the same sizes and dtypes as with real tensors."""
    need(has_formula(overload_of(subject.target)), NO_FORMULA)
    for sample in subject.samples(world):
        leaves, found = _leaves(sample.args), []
        real = _gradients(subject, leaves)
        with FakeTensorMode(shape_env=ShapeEnv(), static_shapes=True) as mode:
            fake = each_tensor(leaves, mode.from_tensor)
            error = _error_of(lambda given, kept=found: kept.extend(_gradients(subject, given)), fake)
        what = f"the formula with fake tensors, sample {sample.label}"
        expect.that(
            error is None,
            f"{what}, runs",
            f"{type(error).__name__}: {error}",
            "operations on tensors alone; put what is not traceable into an operator of its own",
        )
        for number, (one, other) in enumerate(zip(found, real, strict=True)):
            expect.equal(_described(one), _described(other), f"gradient {number} of {what}")


def _leaves(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return fresh arguments whose floating-point tensors require grad."""
    return each_tensor(fresh(args), lambda x: x.requires_grad_(x.is_floating_point() or x.is_complex()))


def _gradients(subject: Any, args: tuple[Any, ...]) -> list[torch.Tensor | None]:
    leaves = [tensor for tensor in tensors_in(args) if tensor.requires_grad]
    results = [tensor for tensor in tensors_in(subject.target(*args)) if tensor.requires_grad]
    need(leaves and results, "nothing can be differentiated")
    return list(
        torch.autograd.grad(results, leaves, [torch.ones_like(result) for result in results], allow_unused=True)
    )


def _error_of(action: Any, args: tuple[Any, ...]) -> Exception | None:
    try:
        action(args)
    except Exception as error:
        return error
    return None


def _described(tensor: torch.Tensor | None) -> str:
    return "none" if tensor is None else f"{tensor.dtype} of sizes {tuple(tensor.shape)}"
