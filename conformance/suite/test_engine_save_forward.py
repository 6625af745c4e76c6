"""What PyTorch promises about save_for_forward."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

from conformance.kit import World, cases, clause, expect
from conformance.kit.functions import build, expect_values, forward_mode, tensor


@clause("Function.save_for_forward.only-tensors")
@cases(form=["combined", "separate"])
def test_what_is_no_tensor_is_refused(world: World, form: str) -> None:
    """save_for_forward raises an error for anything but tensors and None, by itself or among tensors."""
    x = tensor(world, 1.0)
    for wrong in (1, 2.5, True, "text", [x], (x, x), {"x": x}, object()):
        for around in ((wrong,), (x, wrong), (wrong, None)):

            def keep(ctx: Any, inputs: Any, output: Any, around: Any = around) -> None:
                ctx.save_for_forward(*around)

            function = build(form, lambda x: x * 2, keep)
            what = f"PyTorch: save_for_forward raises an error for {type(wrong).__name__}"
            expect.raises(Exception, partial(function.apply, x), what)


def _saved_for_jvp(form: str, names: str, seen: list[Any]) -> Any:
    """A Function of (x, w) that saves by letter for jvp, and something else for backward; jvp tells what came back."""

    def keep(ctx: Any, inputs: Any, output: Any) -> None:
        offered = {"x": inputs[0], "w": inputs[1], "o": output, "n": None}
        ctx.save_for_backward(inputs[1], inputs[1], output, inputs[0])
        ctx.save_for_forward(*[offered[name] for name in names])

    def jvp(ctx: Any, *tangents: Any) -> Any:
        seen.append(ctx.saved_tensors)
        return tangents[0] * 3

    return build(form, lambda x, w: x * w, keep, jvp=jvp)


def _expect_saved(world: World, form: str, names: str) -> None:
    seen: list[Any] = []
    x, w = tensor(world, 1.0, 2.0), tensor(world, 3.0, 4.0)
    offered = {"x": x, "w": w, "o": x * w, "n": None}
    with expect.no_error(f"PyTorch saves tensors and None for jvp, {len(names)} of them", "no exception"):
        forward_mode(_saved_for_jvp(form, names, seen).apply, (x, torch.ones_like(x)), w)
    expected = [offered[name] for name in names]
    expect_values(seen[-1], expected, f"values that PyTorch gives to jvp for {len(names)} saved ones")


@clause("Function.save_for_forward.saved-tensors")
@cases(form=["combined", "separate"], names=["", "x", "xw", "wx", "oxw", "xx"])
def test_saved_for_jvp_in_order(world: World, form: str, names: str) -> None:
    """In jvp, ctx.saved_tensors holds the arguments of save_for_forward, whatever was saved for backward."""
    _expect_saved(world, form, names)


@clause("Function.save_for_forward.none")
@cases(form=["combined", "separate"], names=["n", "nx", "xnw", "nn"])
def test_none_keeps_its_place_for_jvp(world: World, form: str, names: str) -> None:
    """None may be saved for jvp, by itself or among tensors, and is returned as None at its place."""
    _expect_saved(world, form, names)
