"""What PyTorch promises about jvp."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

from conformance.kit import World, cases, clause, expect
from conformance.kit.functions import build, expect_values, forward_mode, tensor


@clause("Function.jvp.overridden")
@cases(form=["combined", "separate"])
def test_without_jvp_forward_mode_raises(world: World, form: str) -> None:
    """Forward-mode differentiation of a class without jvp raises NotImplementedError, though it has a backward."""
    x, direction = tensor(world, 1.0, 2.0), tensor(world, 3.0, 4.0)
    function = build(form, lambda *inputs: inputs[0] * 2, backward=lambda ctx, grad: grad * 2)
    for others in ((), (3, None)):
        what = f"PyTorch: forward mode through a class without jvp, {1 + len(others)} inputs, raises"
        call = function.apply
        expect.raises(NotImplementedError, partial(forward_mode, call, (x, direction), *others), what)
    if form == "separate":
        what = "PyTorch: torch.func.jvp of a class without jvp raises"
        expect.raises(NotImplementedError, lambda: torch.func.jvp(function.apply, (x,), (direction,)), what)


@clause("Function.jvp.receives")
@cases(form=["combined", "separate"])
def test_one_tangent_for_one_input(world: World, form: str) -> None:
    """With a single input jvp is called once, with ctx and its tangent; what it returns is the output's tangent."""
    calls: list[tuple[Any, ...]] = []

    def jvp(ctx: Any, *tangents: Any) -> Any:
        calls.append((ctx, *tangents))
        return tangents[0].sum() * 10

    function = build(form, lambda x: x.sum(), jvp=jvp)
    x, direction = tensor(world, 1.0, 2.0).reshape(2, 1), tensor(world, 3.0, -4.0).reshape(2, 1)
    (actual,) = forward_mode(function.apply, (x, direction))
    expect.equal(len(calls), 1, "number of times PyTorch called jvp")
    ctx, *received = calls[0]
    expect.that(hasattr(ctx, "save_for_forward"), "PyTorch passed ctx first to jvp", ctx)
    expect_values(received, (direction,), "values that PyTorch passed to jvp after ctx")
    expect.equal(actual, tensor(world, -10.0)[0], "tangent that PyTorch computed from what jvp returned")


@clause("Function.jvp.receives")
@cases(form=["combined", "separate"])
def test_one_value_for_each_input(world: World, form: str) -> None:
    """With several inputs jvp gets a tangent for each tensor and None for all else, in their order."""
    calls: list[tuple[Any, ...]] = []

    def jvp(ctx: Any, *tangents: Any) -> Any:
        calls.append(tangents)
        return directions[0] * 2, directions[1] * 3

    function = build(form, lambda *inputs: (inputs[1] * 1, inputs[3] * 1), jvp=jvp)
    first, second = tensor(world, 1.0, 2.0), tensor(world, 3.0)[0]
    directions = tensor(world, 5.0, -6.0), tensor(world, 7.0)[0]
    inputs = ("text", (first, directions[0]), None, (second, directions[1]), 2.5, [first])
    outputs = forward_mode(function.apply, *inputs)

    expect.equal(len(calls), 1, "number of times PyTorch called jvp")
    expected = (None, directions[0], None, directions[1], None, None)
    expect_values(calls[0], expected, "values that PyTorch passed to jvp after ctx, one for each input")
    returned = (directions[0] * 2, directions[1] * 3)
    expect_values(outputs, returned, "tangents that PyTorch computed from what jvp returned")


@clause("Function.jvp.receives")
def test_torch_func_hands_the_same_to_jvp(world: World) -> None:
    """Under torch.func.jvp too jvp gets one value per input in order, None for a non-tensor."""
    shapes: list[list[Any]] = []

    def jvp(ctx: Any, *tangents: Any) -> Any:
        shapes.append([None if one is None else tuple(one.shape) for one in tangents])
        return tensor(world, 29.0)[0]

    function = build("separate", lambda *inputs: 2 * inputs[1].sum() + inputs[3], jvp=jvp)
    primals, tangents = (
        (tensor(world, 1.0, 2.0), tensor(world, 3.0)[0]),
        (tensor(world, 5.0, 6.0), tensor(world, 7.0)[0]),
    )
    actual = torch.func.jvp(lambda x, y: function.apply(None, x, "text", y, 5), primals, tangents)[1]
    expect.equal(shapes[0], [None, (2,), None, (), None], "shapes of what PyTorch passed to jvp under torch.func.jvp")
    expect.equal(actual, tensor(world, 29.0)[0], "tangent under torch.func.jvp")


@clause("Function.jvp.none-allowed")
@cases(form=["combined", "separate"], pattern=["tn", "nt", "tm", "mt", "ti", "ntmtn"])
def test_jvp_may_return_none(world: World, form: str, pattern: str) -> None:
    """None is accepted for an output that is a non-tensor (n), marked non-differentiable (m) or an integer (i)."""
    makers: dict[str, Any] = {"t": lambda x: x * 2, "n": lambda x: 5, "m": torch.sign, "i": torch.argsort}

    def compute(x: Any) -> Any:
        return tuple(makers[letter](x) for letter in pattern)

    def keep(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.mark_non_differentiable(*[one for one, letter in zip(output, pattern, strict=True) if letter in "mi"])

    def jvp(ctx: Any, tangent: Any) -> Any:
        return tuple(tangent * (place + 2) if letter == "t" else None for place, letter in enumerate(pattern))

    x, direction = tensor(world, 1.0, -2.0), tensor(world, 3.0, 4.0)
    function = build(form, compute, keep, jvp=jvp)
    with expect.no_error(f"PyTorch accepts None from jvp for outputs without a derivative ({pattern})", "no exception"):
        actual = forward_mode(function.apply, (x, direction))
    for place, letter in enumerate(pattern):
        if letter == "t":
            what = f"tangent of output {place} where jvp returned None for others ({pattern})"
            expect.equal(actual[place], direction * (place + 2), what)
        else:
            zero = actual[place] is None or not actual[place].any()
            expect.that(zero, f"output {place}, for which jvp returned None, has no tangent", actual[place])
