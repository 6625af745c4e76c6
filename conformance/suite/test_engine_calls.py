"""What PyTorch promises about arguments by name, subclasses, and gradients and saved tensors freed early."""

from __future__ import annotations

import weakref
from typing import Any

import torch

from conformance.kit import World, cases, clause, expect
from conformance.kit.functions import build, leaf, tensor


@clause("Function.apply.keywords")
@cases(form=["combined", "separate"], given=["one", "both", "in another order"])
def test_tensors_may_be_given_by_name(world: World, form: str, given: str) -> None:
    """Pass y by keyword, or x and y in either order; each gets its own gradient."""

    class Combined(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, y: Any) -> Any:
            return 2 * x + 3 * y

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return 2 * grad, 3 * grad

    separate = build("separate", lambda x, y: 2 * x + 3 * y, backward=Combined.backward)
    function = Combined if form == "combined" else separate
    x, y = leaf(world, 1.0), leaf(world, 10.0)
    named = {"one": {"y": y}, "both": {"x": x, "y": y}, "in another order": {"y": y, "x": x}}[given]
    with expect.no_error("PyTorch accepts inputs by keyword", "no exception"):
        result = function.apply(x, **named) if given == "one" else function.apply(**named)
        gradients = torch.autograd.grad(result, (x, y))
    expect.equal(result.detach(), tensor(world, 32.0), "result for inputs passed by keyword")
    expect.equal(torch.cat(gradients), tensor(world, 2.0, 3.0), "gradients of inputs passed by keyword")


class _Marked(torch.Tensor):
    """A subclass that adds nothing."""


@clause("Function.apply.subclass")
@cases(form=["combined", "separate"])
def test_a_subclass_goes_through(world: World, form: str) -> None:
    """Forward receives the subclass and returns it; the caller gets the subclass, and the gradient is right."""
    seen: list[Any] = []

    def compute(x: Any) -> Any:
        seen.append(type(x))
        return x * 2

    x = leaf(world, 1.0)
    result = build(form, compute, backward=lambda ctx, grad: grad * 2).apply(x.as_subclass(_Marked))
    expect.equal(seen, [_Marked], "the class of a tensor that PyTorch passed to forward")
    expect.that(type(result) is _Marked, "the class of an output for a tensor of a subclass", type(result), _Marked)
    result.sum().backward()
    expect.equal(x.grad, tensor(world, 2.0), "gradient through a subclass")


@clause("Function.clear_saved_tensors_on_access.once")
@cases(form=["combined", "separate"])
def test_saved_tensors_are_read_once(world: World, form: str) -> None:
    """A first reading gives them, and what it gave is freed when it is dropped; a second reading raises."""
    freed: list[bool] = []
    middle: list[Any] = []

    def keep(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(middle.pop())

    def compute(x: Any) -> Any:
        middle.append(x + 1)
        return x * 2

    def backward(ctx: Any, grad: Any) -> Any:
        (saved,) = ctx.saved_tensors
        gradient, memory = grad * saved, weakref.ref(saved)
        del saved
        freed.append(memory() is None)
        expect.raises(RuntimeError, lambda: ctx.saved_tensors, "PyTorch raises if saved tensors are read twice")
        return gradient

    function = build(form, compute, keep, backward=backward, clear_saved_tensors_on_access=True)
    x = leaf(world, 2.0)
    (gradient,) = torch.autograd.grad(function.apply(x), x)
    expect.equal(gradient, tensor(world, 3.0), "gradient computed from a saved tensor that is read once")
    expect.equal(freed, [True], "whether a saved tensor is freed after it was read and dropped")


@clause("Function.boxed_grads_call.list")
@cases(form=["combined", "separate"])
def test_gradients_come_in_a_list(world: World, form: str) -> None:
    """Backward takes the gradients out of its list, and the last is freed when it is dropped."""
    seen: list[Any] = []

    def backward(ctx: Any, *given: Any) -> Any:
        (grads,) = given
        seen.append((type(grads), len(grads)))
        first, memory = grads.pop(0), weakref.ref(grads[0])
        grads.clear()
        seen.append(memory() is None)
        return first * 5

    function = build(form, lambda x: (x * 2, x * 3), backward=backward, boxed_grads_call=True)
    x = leaf(world, 1.0)
    first, second = function.apply(x)
    with expect.no_error("PyTorch passes all gradients in one list", "no exception"):
        (gradient,) = torch.autograd.grad(first * 7 + second * 11, x)
    expect.equal(seen, [(list, 2), True], "what PyTorch passed to backward, and whether it was freed once dropped")
    expect.equal(gradient, tensor(world, 35.0), "gradient computed from a list of gradients")
