"""What PyTorch promises about the results of apply, and about attributes of ctx."""

from __future__ import annotations

from typing import Any

import torch

from conformance.kit import World, cases, clause, expect
from conformance.kit.functions import build, expect_values, forward_mode, leaf, nothing, tensor


@clause("Function.forward.data-on-ctx")
@cases(form=["combined", "separate"])
def test_data_on_ctx_reaches_backward(world: World, form: str) -> None:
    """Whatever is set on ctx in the forward pass is there in backward, for each call its own."""
    notes: list[dict[str, Any]] = [
        {"number": 3, "nothing": None, "callable": len},
        {"number": 4, "nothing": None, "callable": max},
    ]
    seen: dict[int, Any] = {}

    def keep(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.note, ctx.number = inputs[1], inputs[1]["number"]

    def backward(ctx: Any, grad: Any) -> Any:
        seen[int(grad)] = (getattr(ctx, "note", "lost"), getattr(ctx, "number", "lost"))
        return grad, None

    function = build(form, lambda x, note: x * 1, keep, backward=backward)
    first, second = (function.apply(leaf(world, 1.0), note) for note in notes)
    (first * 10 + second * 20).backward()
    for key, note in ((10, notes[0]), (20, notes[1])):
        expect_values(seen.get(key, ()), (note, note["number"]), "attributes of ctx that PyTorch kept for backward")


@clause("Function.forward.data-on-ctx")
@cases(form=["combined", "separate"])
def test_data_on_ctx_reaches_jvp(world: World, form: str) -> None:
    """Whatever is set on ctx in the forward pass is there in jvp, for each call its own."""
    seen = []

    def keep(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.note, ctx.number = inputs[1], 7

    def jvp(ctx: Any, *tangents: Any) -> Any:
        seen.append((getattr(ctx, "note", "lost"), getattr(ctx, "number", "lost")))
        return tensor(world, 1.0)

    function, notes = build(form, lambda x, note: x * 1, keep, jvp=jvp), ({"key": 1}, {"key": 2})
    for note in notes:
        forward_mode(function.apply, (tensor(world, 1.0), tensor(world, 1.0)), note)
    for call, note in enumerate(notes):
        expect_values(seen[call * len(seen) // 2], (note, 7), "attributes of ctx that PyTorch kept for jvp")


@clause("Function.apply.returns")
@cases(form=["combined", "separate"], needs_grad=[True, False])
def test_apply_hands_out_what_forward_returned(world: World, form: str, needs_grad: bool) -> None:
    """One value for one value, a tuple for a tuple of any length, and every non-tensor as it was."""
    x, one, many = tensor(world, 1.0).requires_grad_(needs_grad), tensor(world, 2.0), [3]
    tuples: list[Any] = [(one,), (one, one * 2), (None, one, many, "text"), (), (1, 2)]
    for value in (*tuples, one, None, 5, "text", many):
        actual = build(form, lambda x, value=value: value, nothing).apply(x)
        expect.that(type(actual) is type(value), "PyTorch's apply returns what forward returned", actual, value)
        actual, expected = (actual, value) if isinstance(value, tuple) else ((actual,), (value,))
        expect_values(actual, expected, f"what PyTorch's apply returns for {expect.shown(value)}")
        for given in filter(torch.is_tensor, actual):
            expect.equal(given.requires_grad, needs_grad, "whether a result requires grad")


@clause("Function.apply.direct-arguments")
@cases(form=["combined", "separate"], container=["list", "tuple", "dict"])
def test_tensors_in_containers_are_not_differentiated(world: World, form: str, container: str) -> None:
    """A container with a tensor that requires grad goes in, beside a tensor that does not and beside one that does."""
    inside, needed = leaf(world, 3.0), []
    held = {"list": [inside], "tuple": (inside,), "dict": {"inside": inside}}[container]

    def backward(ctx: Any, grad: Any) -> Any:
        needed.append(ctx.needs_input_grad)
        return grad * 3, None

    function = build(form, lambda x, held: x * 3, backward=backward)
    result = function.apply(tensor(world, 2.0), held)
    expect.equal(result.requires_grad, False, f"whether a result requires grad because of a tensor in a {container}")
    x = leaf(world, 2.0)
    function.apply(x, held).sum().backward()
    expect.equal(needed, [(True, False)], f"PyTorch's ctx.needs_input_grad for a tensor and a {container}")
    expect.equal(x.grad, tensor(world, 3.0), f"gradient of a tensor beside a {container}")
    expect.that(inside.grad is None, f"PyTorch gives a tensor in a {container} no gradient", inside.grad, "None")
