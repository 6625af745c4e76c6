"""NestedIOFunction: calls of one argument, instances with attributes, and the transforms."""

from __future__ import annotations

from typing import Any

import torch

from conformance.kit import Subject, World, cases, clause, expect, need
from spec_impl.nested_io.nested import tensors_in, written


@clause("NestedIOFunction.backward.nested")
@cases(kind=["tensor", "dict", "list"])
def test_gradient_of_the_only_argument_may_stand_alone(subject: Subject, world: World, kind: str) -> None:
    """If there is one argument, backward_extended may return its gradient as it is, in no tuple."""
    x = world.tensor(0, (1,), torch.float64, "x").requires_grad_()
    given = {"tensor": x, "dict": {"x": x}, "list": [None, x]}[kind]

    def backward(ctx: Any, *grads: Any) -> Any:
        gradient = tensors_in(grads)[0] * 3
        return {"tensor": gradient, "dict": {"x": gradient}, "list": [None, gradient]}[kind]

    call = written(subject, lambda value: tensors_in([value])[0] * 3, backward)
    tensors_in(call(given))[0].sum().backward()
    expect.close(x.grad, torch.full_like(x, 3.0), f"gradient of a {kind}, returned without a tuple around it")


@clause("NestedIOFunction.backward.nested")
def test_only_argument_may_have_no_gradient(subject: Subject, world: World) -> None:
    """A tuple of one None says that the only argument has no gradient."""
    x, y = (world.tensor(0, (3,), torch.float64, key).requires_grad_() for key in "xy")
    result = tensors_in(written(subject, lambda x: x.round(), lambda ctx, *grads: (None,))(x))[0]
    actual = torch.autograd.grad((result * y).sum(), [x, y], allow_unused=True)
    expect.that(actual[0] is None or not actual[0].any(), "gradient of x, for which None was returned", actual[0], None)
    expect.close(actual[1], x.detach().round(), "gradient of another tensor in the same loss")


@clause("NestedIOFunction.forward.reused")
def test_instances_keep_what_they_were_made_with(subject: Subject, world: World) -> None:
    """Instances with attributes of their own, in use at once, each compute with these, forward and backward."""
    need(subject.function is not None, "a plain callable, not a class to derive from")
    need(not hasattr(subject.function, "setup_context_extended"), "the class is used without instances")

    def made_with(self: Any, factor: float) -> None:
        self.factor = factor

    members = {
        "__init__": made_with,
        "forward_extended": lambda self, x: {"y": x * self.factor},
        "backward_extended": lambda self, *grads: (tensors_in(grads)[0] * self.factor,),
    }
    scaling = type("Written", (subject.function,), members)
    x = world.tensor(0, (3,), torch.float64, "x").requires_grad_()
    instances = {factor: scaling(factor) for factor in (2.0, -3.0)}
    results = {factor: tensors_in(instance(x))[0] for factor, instance in instances.items()}
    for factor, result in results.items():
        expect.close(result, x.detach() * factor, f"result of the instance made with {factor}")
        (gradient,) = torch.autograd.grad(result.sum(), x)
        expect.close(gradient, torch.full_like(x, factor), f"gradient of the instance made with {factor}")


@clause("NestedIOFunction.backward.gradient")
def test_gradients_under_torch_func(subject: Subject, world: World) -> None:
    """torch.func.grad gives the gradients of nested arguments if the class has the separate form."""
    need(hasattr(subject.function, "setup_context_extended"), "torch.func accepts only the separate form")
    x, y = (world.tensor(0, (2, 3), torch.float64, key) for key in "xy")

    def keep(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.save_for_backward(*inputs)

    def backward(ctx: Any, *grads: Any) -> Any:
        x, y = tensors_in(ctx.saved_tensors)
        (grad,) = tensors_in(grads)
        return {"x": grad * y, "more": [grad * x, None]}

    call = written(subject, lambda of: {"product": of["x"] * of["more"][0]}, backward, keep)

    def loss(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return tensors_in(call({"x": x, "more": [y, 2]}))[0].sum()

    actual = torch.func.grad(loss, argnums=(0, 1))(x, y)
    for name, gradient, other in (("a dict", actual[0], y), ("a list in a dict", actual[1], x)):
        expect.close(gradient, other, f"gradient under torch.func.grad of a tensor in {name}")
