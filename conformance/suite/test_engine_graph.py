"""What PyTorch promises about the graph: when it is recorded, how nodes are connected, and what is freed."""

from __future__ import annotations

from typing import Any

import torch

from conformance.kit import World, cases, clause, expect
from conformance.kit.functions import build, leaf, tensor


@clause("Function.forward.no-graph")
@cases(form=["combined", "separate"])
def test_nothing_is_recorded_in_forward(world: World, form: str) -> None:
    """Grad mode is off in forward and setup_context; in backward it is what create_graph says."""
    modes: list[tuple[str, bool]] = []

    def note(name: str, value: Any = None) -> Any:
        modes.append((name, torch.is_grad_enabled()))
        return value

    function = build(
        form,
        lambda x: note("forward", x * 2),
        lambda ctx, inputs, output: note("setup"),
        backward=lambda ctx, grad: note("backward", grad * 2),
    )
    x = leaf(world, 1.0)
    result = function.apply(x)
    torch.autograd.grad(result, x, retain_graph=True)
    torch.autograd.grad(result, x, create_graph=True)
    expected = [("forward", False), ("setup", False), ("backward", False), ("backward", True)]
    expect.equal(modes, expected, "where PyTorch records a graph")
    expect.equal(torch.is_grad_enabled(), True, "grad mode after the passes")


@clause("Function.attributes.next-index")
@cases(form=["combined", "separate"])
def test_next_functions_tell_which_output(world: World, form: str) -> None:
    """The outputs of one node are inputs of the next, in another order."""
    three = build(form, lambda x: (x * 2, x * 3, x * 4)).apply(leaf(world, 1.0))
    for order in ((0, 1, 2), (2, 0, 1), (1, 1, 0)):
        total = build(form, lambda a, b, c: a + b + c).apply(*(three[number] for number in order))
        following = total.grad_fn.next_functions  # read while the output lives: until 2.12 the node goes with it
        expect.equal([index for _, index in following], list(order), "the indices in PyTorch's grad_fn.next_functions")
        same = all(node is three[0].grad_fn for node, _ in following)
        expect.that(same, "the nodes in PyTorch's grad_fn.next_functions", following)


@clause("Function.attributes.clear-saved")
@cases(form=["combined", "separate"], retain=[False, True])
def test_saved_tensors_can_be_freed_in_backward(world: World, form: str, retain: bool) -> None:
    """Reading saved tensors after maybe_clear_saved_tensors raises an error, unless the graph is retained."""

    def backward(ctx: Any, grad: Any) -> Any:
        ctx.maybe_clear_saved_tensors()
        (x,) = ctx.saved_tensors
        return grad * x

    function = build(
        form, lambda x: x * 2, lambda ctx, inputs, output: ctx.save_for_backward(*inputs), backward=backward
    )
    x = leaf(world, 3.0)
    result = function.apply(x)

    def differentiate() -> Any:
        return torch.autograd.grad(result, x, retain_graph=retain)[0]

    if retain:
        for _ in range(2):
            with expect.no_error("maybe_clear_saved_tensors keeps them if the graph is retained", "no exception"):
                actual = differentiate()
            expect.equal(actual, tensor(world, 3.0), "gradient after maybe_clear_saved_tensors")
    else:
        expect.raises(RuntimeError, differentiate, "PyTorch frees saved tensors in maybe_clear_saved_tensors")


@clause("Function.mark_non_differentiable.integers")
@cases(form=["combined", "separate"], dtype=["int64", "int32", "uint8", "bool"])
def test_integers_never_require_grad(world: World, form: str, dtype: str) -> None:
    """An output of the dtype stands beside one of a floating-point dtype; none is marked."""
    integers = getattr(torch, dtype)
    first, second = build(form, lambda x: (x.to(integers), x * 2)).apply(leaf(world, 1.0, 2.0))
    expect.equal((first.requires_grad, second.requires_grad), (False, True), f"requires_grad of {dtype} and float64")
    expect.that(first.grad_fn is None, f"the grad_fn of an output of dtype {dtype}", first.grad_fn, "None")
