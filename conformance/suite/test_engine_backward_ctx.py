"""What PyTorch promises about ctx in backward: saved_tensors and needs_input_grad."""

from __future__ import annotations

from itertools import product
from typing import Any

import torch

from conformance.kit import World, cases, clause, expect
from conformance.kit.functions import build, expect_values, leaf, tensor


@clause("Function.backward.saved-tensors")
@cases(form=["combined", "separate"])
def test_saved_tensors_come_back_in_order(world: World, form: str) -> None:
    """ctx.saved_tensors is a tuple of what was saved: none, one, several, the same twice, inputs, outputs, others."""
    x, w = leaf(world, 1.0, 2.0), tensor(world, 3.0, 4.0)
    extra = torch.arange(6, device=world.device).reshape(2, 3)
    seen = []

    def keep(ctx: Any, inputs: Any, output: Any) -> None:
        offered = {"x": inputs[0], "w": inputs[1], "e": extra, "o": output}
        if inputs[2] is not None:
            ctx.save_for_backward(*[offered[letter] for letter in inputs[2]])

    def backward(ctx: Any, grad: Any) -> Any:
        seen.append(ctx.saved_tensors)
        return grad, None, None

    function = build(form, lambda x, w, letters: x * w, keep, backward=backward)
    for letters in (None, "", "x", "xw", "wx", "oexw", "xx", "eowxe"):
        output = function.apply(x, w, letters)
        output.sum().backward()
        offered = {"x": x, "w": w, "e": extra, "o": output}
        expected = [offered[letter] for letter in letters or ""]
        actual, what = seen[-1], f"PyTorch's ctx.saved_tensors, for {len(expected)} saved ones"
        expect.that(type(actual) is tuple, "PyTorch's ctx.saved_tensors is a tuple", type(actual), tuple)
        expect_values(actual, expected, what)
        needs = [one.requires_grad for one in actual]
        expect.equal(needs, [one.requires_grad for one in expected], f"which of {what}, require grad")


@clause("Function.backward.saved-tensors")
@cases(form=["combined", "separate"])
def test_saved_input_can_be_differentiated_again(world: World, form: str) -> None:
    """A saved input is returned as part of the graph, so the gradient itself has the right gradient."""

    def backward(ctx: Any, grad: Any) -> Any:
        (x,) = ctx.saved_tensors
        return grad * 3 * x**2

    function = build(form, lambda x: x**3, lambda ctx, inputs, _: ctx.save_for_backward(*inputs), backward=backward)
    x = leaf(world, 2.0, -1.0)
    (first,) = torch.autograd.grad(function.apply(x).sum(), x, create_graph=True)
    expect.equal(first.detach(), tensor(world, 12.0, 3.0), "gradient of x**3 from a saved input")
    (second,) = torch.autograd.grad(first.sum(), x)
    expect.equal(second, tensor(world, 12.0, -6.0), "second derivative of x**3 from a saved input")


@clause("Function.backward.needs-input-grad")
@cases(form=["combined", "separate"])
def test_needs_input_grad_says_who_needs_one(world: World, form: str) -> None:
    """needs_input_grad has a bool for every input, True exactly for tensors that require grad, in every combination."""
    seen = []

    def backward(ctx: Any, grad: Any) -> Any:
        seen.append(ctx.needs_input_grad)
        return tuple(grad if needs else None for needs in wanted)

    function = build(form, lambda a, n, b, c, o: a + b + c, backward=backward)
    for first, second, third in product([False, True], repeat=3):
        if not (first or second or third):
            continue
        wanted = (first, False, second, third, False)
        tensors = [tensor(world, 1.0).requires_grad_(needs) for needs in (first, second, third)]
        function.apply(tensors[0], 2.5, tensors[1], tensors[2], None).sum().backward()
        actual = seen[-1]
        expect.that(type(actual) is tuple, "PyTorch's ctx.needs_input_grad is a tuple", type(actual), tuple)
        expect.equal(actual, wanted, "PyTorch's ctx.needs_input_grad")
        expect.that(all(type(one) is bool for one in actual), "each entry of ctx.needs_input_grad is a bool", actual)


@clause("Function.backward.needs-input-grad")
@cases(form=["combined", "separate"])
def test_needs_input_grad_of_computed_and_integer_inputs(world: World, form: str) -> None:
    """A computed tensor needs a gradient if its own inputs do; a detached or an integer one does not."""
    seen = []

    def backward(ctx: Any, grad: Any) -> Any:
        seen.append(ctx.needs_input_grad)
        return (grad, *[None] * (len(ctx.needs_input_grad) - 1))

    function, x = build(form, lambda *inputs: inputs[0] * 2, backward=backward), leaf(world, 1.0)
    index = torch.ones(1, dtype=torch.int64, device=world.device)
    function.apply(x * 2).backward()
    expect.equal(seen[-1], (True,), "PyTorch's ctx.needs_input_grad for one computed input")
    function.apply(x * 2, x.detach(), index, x).backward()
    what = "PyTorch's ctx.needs_input_grad for a computed, a detached, an integer and a leaf tensor"
    expect.equal(seen[-1], (True, False, False, True), what)
