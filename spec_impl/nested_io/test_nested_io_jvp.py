"""NestedIOFunction in forward mode: nested tangents, and nested tensors saved for them."""

from __future__ import annotations

from typing import Any

import torch
from torch.autograd import forward_ad

from conformance.kit import Subject, World, clause, expect, need
from spec_impl.nested_io.nested import expect_nested, tensors_in, written

FORWARD_MODE = "a subclass cannot define jvp_extended, and PyTorch's own class cannot nest tangents"


@clause("NestedIOFunction.jvp.nested")
def test_tangents_are_nested_like_the_arguments(subject: Subject, world: World) -> None:
    """Two tensors of three have tangents, in a dict and a list beside a number; the result is nested in another way."""
    need(hasattr(subject.function, "jvp_extended"), FORWARD_MODE)
    x, y, dx, dy = (world.tensor(0, (2,), torch.float64, key) for key in ("x", "y", "dx", "dy"))
    seen: list[Any] = []

    def jvp(ctx: Any, named: Any, factor: Any) -> Any:
        seen.append((named, factor))
        return {"sum": [named["x"] + named["more"][0], None], "twice": 2 * named["x"]}

    def forward(named: Any, factor: float) -> Any:
        return {"sum": [named["x"] + named["more"][0], factor], "twice": 2 * named["x"]}

    call = written(subject, forward, jvp=jvp)
    with forward_ad.dual_level():
        result = call({"x": forward_ad.make_dual(x, dx), "more": [forward_ad.make_dual(y, dy), "name"]}, 3.0)
        tangents = [forward_ad.unpack_dual(one).tangent for one in tensors_in(result)]
    expect_nested(seen, [({"x": dx, "more": [dy, None]}, None)], "tangents that jvp_extended received")
    for actual, expected, place in zip(tangents, (dx + dy, 2 * dx), ("['sum'][0]", "['twice']"), strict=True):
        expect.close(actual, expected, f"tangent of the result at {place}")


@clause("NestedIOFunction.save_for_forward.nested")
def test_tensors_are_saved_nested_for_jvp(subject: Subject, world: World) -> None:
    """save_for_forward and save_for_backward get tensors nested in two ways; jvp and backward read their own."""
    need(hasattr(subject.function, "jvp_extended"), FORWARD_MODE)
    x, y, dx = (world.tensor(0, (2,), torch.float64, key) for key in ("x", "y", "dx"))
    seen: dict[str, Any] = {}

    def keep(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.save_for_backward([inputs[1], {"first": inputs[0]}])
        ctx.save_for_forward({"second": inputs[1]}, (inputs[0], None))

    def backward(ctx: Any, grad: Any) -> Any:
        seen["backward"] = ctx.saved_tensors
        return grad * ctx.saved_tensors[0][0], None

    def jvp(ctx: Any, dx: Any, dy: Any) -> Any:
        seen["jvp"] = ctx.saved_tensors
        return [dx * ctx.saved_tensors[0]["second"]]

    call = written(subject, lambda x, y: [x * y], backward, keep, jvp)
    with forward_ad.dual_level():
        (result,) = call(forward_ad.make_dual(x, dx), y)
        expect.close(forward_ad.unpack_dual(result).tangent, dx * y, "tangent made of what was saved")
    expect_nested(seen["jvp"], ({"second": y}, (x, None)), "saved_tensors in jvp_extended")
    leaf = x.clone().requires_grad_()
    call(leaf, y)[0].sum().backward()
    expect_nested(seen["backward"], ([y, {"first": x}],), "saved_tensors in backward_extended")
