"""What PyTorch promises about backward and vjp."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

from conformance.kit import World, cases, clause, expect
from conformance.kit.functions import build, expect_value, expect_values, leaf, nothing, tensor


@clause("Function.backward.overridden")
@cases(form=["combined", "separate"])
def test_without_backward_differentiating_raises(world: World, form: str) -> None:
    """A class with neither backward nor vjp runs forward; differentiating its result raises NotImplementedError."""
    function, x = build(form, lambda *inputs: (inputs[0] * 2, inputs[0] + 1)), leaf(world, 1.0, 2.0)
    for arguments in ((x,), (x, 3, None)):
        what = f"PyTorch: differentiating a class without backward, {len(arguments)} inputs, raises"
        first, second = function.apply(*arguments)
        expect.equal(first.detach(), x.detach() * 2, "result of a class without backward")
        expect.raises(NotImplementedError, first.sum().backward, what)
        expect.raises(NotImplementedError, partial(torch.autograd.grad, second.sum(), x), what)
    if form == "separate":
        transformed = torch.func.grad(lambda value: function.apply(value)[0].sum())
        what = "PyTorch: differentiating a class without backward raises under torch.func.grad"
        expect.raises(NotImplementedError, lambda: transformed(x.detach()), what)


@clause("Function.backward.vjp-alias")
@cases(form=["combined", "separate"])
def test_vjp_stands_for_backward(world: World, form: str) -> None:
    """A class with vjp only is differentiated by vjp: same ctx, same arguments, and its values are the gradients."""
    calls = []

    def keep(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(inputs[0])
        ctx.note = "kept"

    def vjp(ctx: Any, *grads: Any) -> Any:
        calls.append((ctx.note, grads))
        (x,) = ctx.saved_tensors
        return grads[0] * 5 * x, None

    function = build(form, lambda x, n: (x * n, None), keep, vjp=vjp)
    x, weights = leaf(world, 1.0, 2.0), tensor(world, 1.0, 10.0)
    (gradient,) = torch.autograd.grad((function.apply(x, 3)[0] * weights).sum(), x, allow_unused=True)
    expect.equal(len(calls), 1, "number of times PyTorch called vjp")
    note, grads = calls[0]
    expect.equal(note, "kept", "attribute of ctx in vjp")
    expect_values(grads, (weights, None), "values that PyTorch passed to vjp after ctx")
    expect.equal(gradient, tensor(world, 5.0, 100.0), "gradient that PyTorch computed from what vjp returned")


@clause("Function.backward.vjp-alias")
@cases(form=["combined", "separate"])
def test_vjp_and_backward_together_are_refused(world: World, form: str) -> None:
    """Differentiating a class that defines both backward and vjp raises, and neither is called."""
    called = []

    def derivative(ctx: Any, grad: Any) -> Any:
        called.append(grad)
        return grad

    function = build(form, lambda x: x * 2, backward=derivative, vjp=derivative)
    what = "PyTorch: differentiating a class with both backward and vjp raises"
    expect.raises(Exception, lambda: function.apply(leaf(world, 1.0, 2.0)).sum().backward(), what)
    expect.equal(len(called), 0, "number of times PyTorch called backward or vjp of a class with both")


@clause("Function.backward.receives")
@cases(form=["combined", "separate"])
def test_one_gradient_for_one_output(world: World, form: str) -> None:
    """With a single output backward is called once, with ctx and the gradient of that output."""
    calls = []

    def backward(ctx: Any, *grads: Any) -> Any:
        calls.append((ctx, grads))
        return grads[0].sum() * torch.ones_like(x)

    x = leaf(world, 1.0, 2.0, 3.0)
    weights = torch.stack([tensor(world, 1.0, -2.0, 3.0), tensor(world, 4.0, 5.0, -6.0)])
    for outputs in (lambda x: torch.stack([x, x]), lambda x: (torch.stack([x, x]),)):
        calls.clear()
        result = build(form, outputs, nothing, backward=backward).apply(x)
        result = result[0] if isinstance(result, tuple) else result
        result.backward(weights)
        expect.equal(len(calls), 1, "number of times PyTorch called backward")
        ctx, grads = calls[0]
        expect.that(ctx is result.grad_fn, "PyTorch passed ctx first to backward", ctx, result.grad_fn)
        expect_values(grads, (weights,), "values that PyTorch passed to backward after ctx")


@clause("Function.backward.receives")
@cases(form=["combined", "separate"])
def test_one_value_for_each_output(world: World, form: str) -> None:
    """With several outputs backward gets a gradient for each tensor and None for all else, in their order."""
    calls = []

    def compute(x: Any) -> Any:
        return "text", x.sum(), None, x * 2, 7, x[:2].reshape(2, 1), [x], 2.5

    def backward(ctx: Any, *grads: Any) -> Any:
        calls.append(grads)
        return torch.zeros(3, dtype=torch.float64, device=world.device)

    outputs = build(form, compute, backward=backward).apply(leaf(world, 1.0, 2.0, 3.0))
    first, second, third = tensor(world, 5.0)[0], tensor(world, 1.0, 2.0, 3.0), tensor(world, -1.0, 4.0).reshape(2, 1)
    weights = (None, first, None, second, None, third, None, None)
    pairs = zip(outputs, weights, strict=True)
    sum((output * weight).sum() for output, weight in pairs if weight is not None).backward()

    expect.equal(len(calls), 1, "number of times PyTorch called backward")
    expect_values(calls[0], weights, "values that PyTorch passed to backward after ctx, one for each output")


@clause("Function.backward.none-allowed")
@cases(form=["combined", "separate"])
def test_backward_may_return_none(world: World, form: str) -> None:
    """None is accepted at the place of a non-tensor input and of one that needs no gradient; the others get theirs."""

    def backward(ctx: Any, grad: Any) -> Any:
        return tuple(grad * (place + 1) if letter == "x" else None for place, letter in enumerate(pattern))

    function = build(form, lambda *inputs: sum(v for v in inputs if isinstance(v, torch.Tensor)), backward=backward)
    fixed, other = tensor(world, 3.0), [2.0]
    for pattern in ("x", "xn", "nx", "fx", "xf", "nxfxn", "fnx", "xlx"):
        given = {"f": fixed, "n": None, "l": other}
        arguments: list[Any] = [leaf(world, 1.0) if letter == "x" else given[letter] for letter in pattern]
        what = f"PyTorch accepts None from backward for inputs that need no gradient ({pattern})"
        with expect.no_error(what, "no exception"):
            function.apply(*arguments).backward()
        for place, argument in enumerate(arguments):
            if pattern[place] == "x":
                what = f"gradient of input {place} where backward returned None for others ({pattern})"
                expect.equal(argument.grad, tensor(world, place + 1.0), what)
    expect_value(fixed.grad, None, "gradient of an input that needs none")


@clause("Function.backward.once-differentiable")
@cases(form=["combined", "separate"])
def test_once_differentiable_refuses_the_second_time(world: World, form: str) -> None:
    """Under once_differentiable the gradient is right, with and without a graph; differentiating it raises."""

    def backward(ctx: Any, grad: Any, *others: Any) -> Any:
        (x,) = ctx.saved_tensors
        return grad * 2 * x, None

    def keep(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(inputs[0])

    once = torch.autograd.function.once_differentiable(backward)
    function, x = build(form, lambda x, n: x**n, keep, backward=once), leaf(world, 3.0, -1.0)
    (alone,) = torch.autograd.grad(function.apply(x, 2).sum(), x)
    expect.equal(alone, tensor(world, 6.0, -2.0), "gradient under once_differentiable")
    losses: tuple[tuple[Any, torch.Tensor], ...] = (
        (lambda y: y * y, tensor(world, 108.0, -4.0)),
        (lambda y: y * x, tensor(world, 27.0, 3.0)),
    )
    for loss, expected in losses:
        (first,) = torch.autograd.grad(loss(function.apply(x, 2)).sum(), x, create_graph=True)
        expect.equal(first.detach(), expected, "gradient under once_differentiable with create_graph")
        what = "PyTorch: differentiating a gradient made under once_differentiable raises"
        expect.raises(RuntimeError, first.sum().backward, what)
