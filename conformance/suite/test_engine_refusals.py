"""Errors that PyTorch promises: for wrong values from backward and vmap, and wrong arguments of save_for_backward."""

from __future__ import annotations

from typing import Any

import torch

from conformance.kit import World, cases, clause, expect
from conformance.kit.functions import build, leaf, tensor


@clause("Function.backward.refused")
@cases(
    form=["combined", "separate"], wrong=["too few", "shape", "value for a number", "value for None", "one too many"]
)
def test_wrong_values_from_backward_are_refused(world: World, form: str, wrong: str) -> None:
    """Backward returns one value less, one more, a gradient of another shape, or something for a non-tensor."""
    one, five = torch.ones(2, device=world.device), torch.ones(5, device=world.device)
    values: dict[str, Any] = {
        "too few": (one,),
        "shape": (five, None, None),
        "value for a number": (one, one, None),
        "value for None": (one, None, one),
        "one too many": (one, None, None, one),
    }
    function = build(form, lambda x, n, nothing: x * n, backward=lambda ctx, grad: values[wrong])
    result = function.apply(leaf(world, 1.0, 2.0), 3.0, None)
    expect.raises(RuntimeError, lambda: result.sum().backward(), f"PyTorch refuses what backward returns: {wrong}")


@clause("Function.backward.refused")
@cases(form=["combined", "separate"], more=[1, 3])
def test_more_nones_and_unneeded_gradients_are_taken(world: World, form: str, more: int) -> None:
    """Backward returns a gradient for an input that needs none, and then further Nones."""
    function = build(form, lambda x, fixed: x * fixed, backward=lambda ctx, grad: (grad * 3, grad, *(None,) * more))
    x, fixed = leaf(world, 1.0, 2.0), tensor(world, 3.0, 3.0)
    with expect.no_error("PyTorch accepts extra Nones and a gradient that is not needed", "no exception"):
        function.apply(x, fixed).sum().backward()
    expect.equal(x.grad, tensor(world, 3.0, 3.0), "gradient beside values that are not needed")
    expect.that(fixed.grad is None, "the gradient of an input that needs none", fixed.grad, "None")


@clause("Function.save_for_backward.refused")
@cases(form=["combined", "separate"], wrong=["number", "text", "list of tensors"])
def test_saving_what_is_no_tensor_is_refused(world: World, form: str, wrong: str) -> None:
    """save_for_backward is given a number, a text or a list among tensors; apply raises TypeError."""
    x = leaf(world, 1.0, 2.0)
    values = {"number": 1.0, "text": "x", "list of tensors": [x.detach()]}

    def keep(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(inputs[0], values[wrong])

    function = build(form, lambda x: x * 2, keep)
    expect.raises(TypeError, lambda: function.apply(x), f"PyTorch raises an error for saving a {wrong} for backward")


@clause("Function.vmap.refused")
@cases(wrong=["no pair", "three values", "too many out_dims", "nested out_dims"])
def test_wrong_values_from_vmap_are_refused(world: World, wrong: str) -> None:
    """A vmap returns only its output, a triple, or out_dims whose structure is not the output's."""
    returned: dict[str, Any] = {
        "no pair": lambda y: y,
        "three values": lambda y: (y, 0, 0),
        "too many out_dims": lambda y: (y, (0, 0)),
        "nested out_dims": lambda y: ((y, y), (0, (0, 0))),
    }
    function = build("separate", lambda x: x * 2, vmap=lambda info, in_dims, x: returned[wrong](x * 2))
    batch = tensor(world, 1.0, 2.0, 3.0)
    expect.raises(Exception, lambda: torch.vmap(function.apply)(batch), f"PyTorch refuses what vmap returns: {wrong}")
