"""What PyTorch promises about vmap among the other transforms of torch.func."""

from __future__ import annotations

from typing import Any

import torch

from conformance.kit import World, cases, clause, expect
from conformance.kit.functions import build, tensor


def _square(rule: list[tuple[Any, ...]]) -> Any:
    """The square in the separate form; its vmap writes down the in_dims, and its backward uses PyTorch alone."""

    def vmap(info: Any, in_dims: tuple[Any, ...], x: Any) -> Any:
        rule.append(in_dims)
        return square.apply(x), in_dims[0]

    def keep(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    square = build(
        "separate",
        lambda x: x * x,
        keep,
        backward=lambda ctx, grad: 2 * ctx.saved_tensors[0] * grad,
        jvp=lambda ctx, tangent: 2 * ctx.saved_tensors[0] * tangent,
        vmap=vmap,
    )
    return square


@clause("Function.vmap.transforms")
@cases(transform=["vmap of vmap", "gradient of vmap", "vmap of gradient", "vmap of jvp"])
def test_the_rule_is_used_among_transforms(world: World, transform: str) -> None:
    """The result is right, and the class's rule made it."""
    rule: list[tuple[Any, ...]] = []
    function = _square(rule).apply
    func, vmap, ones = torch.func, torch.vmap, tensor(world, 1.0, 1.0)
    x = tensor(world, 1.0, 2.0, 3.0, 4.0).reshape(2, 2)
    calls: dict[str, tuple[Any, Any, int]] = {
        "vmap of vmap": (lambda: vmap(vmap(function))(x), x * x, 2),
        "gradient of vmap": (lambda: func.grad(lambda x: vmap(function)(x).sum())(x), 2 * x, 1),
        "vmap of gradient": (lambda: vmap(func.grad(lambda x: function(x).sum()))(x), 2 * x, 1),
        "vmap of jvp": (lambda: vmap(lambda x: func.jvp(function, (x,), (ones,))[1])(x), 2 * x, 1),
    }
    call, expected, times = calls[transform]
    with expect.no_error(f"PyTorch composes the rule: {transform}", "no exception"):
        actual = call()
    expect.equal(actual, expected, f"result of {transform}")
    expect.that(len(rule) >= times, f"calls of the class's vmap in {transform}", len(rule), f"{times} or more")
