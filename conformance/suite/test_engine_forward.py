"""What PyTorch promises about forward, setup_context and apply."""

from __future__ import annotations

from typing import Any

import torch

from conformance.kit import World, cases, clause, expect
from conformance.kit.functions import build, expect_values, leaf, tensor


@clause("Function.forward.overridden")
@cases(count=[0, 1, 3])
def test_combined_form_without_forward_raises(world: World, count: int) -> None:
    """To apply a class that has only a backward raises NotImplementedError, with any number of arguments."""

    class Forgotten(torch.autograd.Function):
        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            return grads

    arguments = [leaf(world, 1.0), 2, None][:count]
    what = f"PyTorch: apply of a class without forward, with {count} arguments, raises"
    expect.raises(NotImplementedError, lambda: Forgotten.apply(*arguments), what)


@clause("Function.forward.overridden")
def test_separate_form_without_forward_raises(world: World) -> None:
    """To apply a class that has a setup_context and no forward raises NotImplementedError, under torch.func as well."""

    class Forgotten(torch.autograd.Function):
        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            """Store nothing."""

    x = tensor(world, 1.0)
    what = "PyTorch: apply of a class with setup_context and without forward raises"
    expect.raises(NotImplementedError, lambda: Forgotten.apply(x), what)
    transformed = torch.func.grad(lambda value: Forgotten.apply(value).sum())
    expect.raises(NotImplementedError, lambda: transformed(x), f"{what} under torch.func.grad")


@clause("Function.forward.combined")
@cases(count=[0, 1, 2, 5, 12])
def test_forward_gets_ctx_and_every_argument(world: World, count: int) -> None:
    """In the combined form forward is called once, with ctx and then every argument unchanged."""
    calls: list[tuple[Any, tuple[Any, ...]]] = []

    def keep(ctx: Any, inputs: Any, output: Any) -> None:
        calls.append((ctx, inputs))

    function = build("combined", lambda *inputs: torch.zeros(2), keep, backward=lambda ctx, grad: (None,) * count)
    others = ([tensor(world, 2.0)], "text", True, 7, {"key": 1}, (1, 2), len, object(), tensor(world, 3.0))
    arguments = (leaf(world, 1.0), 2.5, None, *others)[:count]
    result = function.apply(*arguments)

    expect.equal(len(calls), 1, "number of times PyTorch called forward")
    ctx, actual = calls[0]
    expect.that(hasattr(ctx, "save_for_backward"), "PyTorch passed ctx first to forward", ctx)
    expect_values(actual, arguments, "arguments that PyTorch passed to forward after ctx")
    if result.requires_grad:
        node = result.grad_fn
        expect.that(node is ctx, "ctx of forward is the ctx of the result", node, ctx)


@clause("Function.setup_context.separate")
@cases(count=[1, 2, 6])
def test_setup_context_follows_forward_once(world: World, count: int) -> None:
    """In the separate form forward gets no ctx; setup_context comes after it, once, with a tuple of all inputs."""
    calls: list[tuple[str, tuple[Any, ...]]] = []

    def compute(*inputs: Any) -> Any:
        calls.append(("forward", inputs))
        return inputs[0] * 2

    def keep(ctx: Any, inputs: Any, output: Any) -> None:
        calls.append(("setup_context", (ctx, inputs, output)))

    arguments = (leaf(world, 1.0), 2.5, None, [3], tensor(world, 4.0), "text")[:count]
    build("separate", compute, keep).apply(*arguments)

    order = [name for name, _ in calls]
    expect.equal(order, ["forward", "setup_context"], "what PyTorch called, in order")
    expect_values(calls[0][1], arguments, "arguments that PyTorch passed to forward, without ctx")
    _, (ctx, inputs, output) = calls[1]
    expect.that(hasattr(ctx, "save_for_backward"), "PyTorch passed ctx first to setup_context", ctx)
    expect.that(type(inputs) is tuple, "PyTorch passed the inputs to setup_context as a tuple", type(inputs), tuple)
    expect_values(inputs, arguments, "inputs that PyTorch passed to setup_context")
    expect.equal(output.detach(), tensor(world, 2.0), "output that PyTorch passed to setup_context")


@clause("Function.setup_context.separate")
@cases(kind=["tensor", "one-tuple", "tuple", "none", "list"])
def test_setup_context_gets_what_forward_returned(world: World, kind: str) -> None:
    """setup_context receives forward's result as forward returned it: a single value, or a tuple."""
    x, seen = leaf(world, 1.0, 2.0), []
    results: dict[str, Any] = {
        "tensor": tensor(world, 3.0),
        "one-tuple": (tensor(world, 3.0),),
        "tuple": (tensor(world, 3.0), None, 5),
        "none": None,
        "list": [1, 2],
    }
    returned = results[kind]
    build("separate", lambda value: returned, lambda ctx, inputs, output: seen.append(output)).apply(x)

    expect.equal(len(seen), 1, "number of times PyTorch called setup_context")
    (actual,) = seen
    expect.that(type(actual) is type(returned), "PyTorch passed setup_context what forward returned", actual, returned)
    actual, expected = (actual, returned) if isinstance(returned, tuple) else ((actual,), (returned,))
    expect_values(actual, expected, "outputs that PyTorch passed to setup_context")


@clause("Function.setup_context.defaults")
def test_defaults_stand_in_inputs(world: World) -> None:
    """An argument left at its default has the place in inputs that forward's signature gives it."""
    _expect_inputs(world, [((), {}, (2, 1.5, None)), ((3,), {}, (3, 1.5, None)), ((3, 4.0), {}, (3, 4.0, None))])


@clause("Function.setup_context.keywords")
def test_names_stand_in_inputs(world: World) -> None:
    """An argument passed by keyword is in inputs at its place in forward's signature."""
    calls: list[tuple[tuple[Any, ...], dict[str, Any], tuple[Any, ...]]] = [
        ((), {"scale": 4.0}, (2, 4.0, None)),
        ((), {"shift": "s", "exponent": 5}, (5, 1.5, "s")),
        ((3,), {"scale": 2.0}, (3, 2.0, None)),
    ]
    _expect_inputs(world, calls)
    _expect_inputs(world, [((), {"scale": 2.0}, (2, 2.0, None))], all_by_name=True)


def _expect_inputs(
    world: World, calls: list[tuple[tuple[Any, ...], dict[str, Any], tuple[Any, ...]]], all_by_name: bool = False
) -> None:
    seen: list[tuple[Any, ...]] = []

    def compute(x: Any, exponent: int = 2, scale: float = 1.5, shift: Any = None) -> Any:
        return scale * x**exponent

    def keep(ctx: Any, inputs: Any, output: Any) -> None:
        seen.append(inputs)

    function, x = build("separate", compute, keep), leaf(world, 2.0)
    for others, named, expected in calls:
        arguments, names = ((), {**named, "x": x}) if all_by_name else ((x, *others), named)
        function.apply(*arguments, **names)
        given = f"for {len(arguments)} arguments and {', '.join(names) or 'none'} by name"
        expect_values(seen[-1], (x, *expected), f"inputs that PyTorch passed to setup_context {given}")
