"""The formula: it exists, or differentiating says that it does not; it can be traced, and gets every argument."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from conformance.kit import NotApplicable, clause, expect, need
from operator_spec.spec import call, divided, each_tensor, has_formula, overload_of, tensors_in
from operator_spec.variants import NO_FORMULA, error_of, fresh, leaves_of

SETUP = "setup_context(ctx, inputs, keyword_only_inputs, output), which finds them by name in keyword_only_inputs"
TAGS = ("inplace", "out")


@clause("Operator.autograd.registered")
def test_without_a_formula_differentiating_raises(subject: Any, world: Any) -> None:
    """Without a formula, differentiating raises, and never returns the gradient of the kernel's own operations."""
    overload_of(subject.target)
    need(not has_formula(subject.target), "a formula is registered")
    seen = False
    for sample in subject.samples(world):
        args = leaves_of(sample.args)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            error = error_of(_gradients, subject, args)
        if isinstance(error, NotApplicable):
            continue
        seen = True
        expect.that(
            error is not None,
            f"differentiating without a formula, sample {sample.label}, raises",
            "it gives gradients, and PyTorch only warns",
            "an error; register_autograd registers a formula",
        )
    need(seen, "nothing can be differentiated")


@clause("Operator.autograd.traceable")
def test_forward_and_backward_run_on_fake_tensors(subject: Any, world: Any) -> None:
    """Gradients of the same sizes and dtypes as with real tensors."""
    need(has_formula(overload_of(subject.target)), NO_FORMULA)
    for sample in subject.samples(world):
        leaves, found = leaves_of(sample.args), []
        try:
            real = _gradients(subject, leaves)
        except Exception as error:
            raise NotApplicable(f"with real tensors it raises {type(error).__name__}: {error}") from error
        with FakeTensorMode(shape_env=ShapeEnv(), static_shapes=True) as mode:
            fake = each_tensor(leaves, mode.from_tensor)
            error = error_of(lambda kept, given: kept.extend(_gradients(subject, given)), found, fake)
        what = f"the formula with fake tensors, sample {sample.label}"
        expect.that(
            error is None,
            f"{what}, runs",
            f"{type(error).__name__}: {error}",
            "operations on tensors alone; put what is not traceable into an operator of its own",
        )
        for number, (one, other) in enumerate(zip(found, real, strict=True)):
            expect.equal(_described(one), _described(other), f"gradient {number} of {what}")


@clause("Operator.autograd.keyword-only")
def test_the_formula_gets_keyword_only_arguments(subject: Any, world: Any) -> None:
    """Differentiating raises nothing, whether they are given or left to their defaults."""
    schema = overload_of(subject.target)._schema
    need(has_formula(subject.target), NO_FORMULA)
    optional = {argument.name for argument in schema.arguments if argument.kwarg_only and argument.has_default_value()}
    need(any(argument.kwarg_only for argument in schema.arguments), "it takes no argument by keyword alone")
    for sample in subject.samples(world):
        args, options = divided(subject.target, leaves_of(sample.args))
        needed = {name: value for name, value in options.items() if name not in optional}
        for what, given in (("as given", options), ("left to their defaults", needed)):
            error = error_of(lambda named, by_place: _backward(subject.target(*by_place, **named)), given, args)
            expect.that(
                error is None,
                f"differentiating, sample {sample.label}, with keyword-only arguments {what}, raises nothing",
                f"{type(error).__name__}: {error}",
                SETUP,
            )


@clause("Operator.autograd.out")
def test_tagged_operators_return_what_they_change(subject: Any, world: Any) -> None:
    """``inplace``: the first argument itself; ``out``: the arguments that are changed, and no gradients."""
    overload = overload_of(subject.target)
    tags = [name for name in TAGS if getattr(torch.Tag, name, None) in overload.tags]
    need(tags, "it is tagged neither inplace nor out")
    for sample in subject.samples(world):
        args = fresh(sample.args)
        changed = [
            value
            for argument, value in zip(overload._schema.arguments, args, strict=False)
            if argument.alias_info is not None and argument.alias_info.is_write
        ]
        error = error_of(lambda kept, given: kept.extend(tensors_in(call(subject.target, given))), found := [], args)
        expect.that(error is None, f"a call, sample {sample.label}, returns", f"{type(error).__name__}: {error}")
        expect.that(
            [id(tensor) for tensor in found] == [id(tensor) for tensor in tensors_in(changed)],
            f"what an operator tagged {tags[0]} returns, sample {sample.label}",
            "other tensors",
            "the argument that it changed" if len(changed) == 1 else "the arguments that it changed, in their order",
        )


def _backward(result: Any) -> None:
    results = [tensor for tensor in tensors_in(result) if tensor.requires_grad]
    torch.autograd.backward(results, [torch.ones_like(tensor) for tensor in results])


def _gradients(subject: Any, args: tuple[Any, ...]) -> list[torch.Tensor | None]:
    leaves = [tensor for tensor in tensors_in(args) if tensor.requires_grad]
    results = [tensor for tensor in tensors_in(call(subject.target, args)) if tensor.requires_grad]
    need(leaves and results, "nothing can be differentiated")
    return list(
        torch.autograd.grad(results, leaves, [torch.ones_like(result) for result in results], allow_unused=True)
    )


def _described(tensor: torch.Tensor | None) -> str:
    return "none" if tensor is None else f"{tensor.dtype} of sizes {tuple(tensor.shape)}"
