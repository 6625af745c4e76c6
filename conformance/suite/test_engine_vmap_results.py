"""What PyTorch promises about the results of vmap: those of a class's own rule, and those of a generated one."""

from __future__ import annotations

from typing import Any

import torch

from conformance.kit import World, cases, clause, expect
from conformance.kit.functions import MAPPED, build, expect_values, random_numbers


@clause("Function.vmap.out-dims-honoured")
@cases(out_dim=[0, 1, 2, None])
def test_the_result_is_batched_along_out_dim(world: World, out_dim: int | None) -> None:
    """A single output has a sample for each index along out_dim; with None it is the same for every sample."""
    shape = (2, 3) if out_dim is None else (MAPPED, 2, 3)
    returned = random_numbers(world, *shape)
    expected = returned.expand(MAPPED, 2, 3) if out_dim is None else returned
    placed = returned if out_dim is None else returned.movedim(0, out_dim)
    function = build("separate", lambda x: None, vmap=lambda info, in_dims, x: (placed, out_dim))
    x = random_numbers(world, MAPPED, 3)
    what = f"torch.vmap, where a class's vmap has out_dims {out_dim}"
    expect.equal(torch.vmap(function.apply)(x), expected, f"PyTorch's result of {what}")
    used = torch.vmap(lambda x: function.apply(x) + 10 * x)(x)
    expect.equal(used, expected + 10 * x.unsqueeze(1), f"PyTorch's result, used sample by sample, of {what}")


@clause("Function.vmap.out-dims-honoured")
@cases(out_dims=[[0, 0, 0], [1, 0, None], [None, 1, 2], [2, None, 1], [None, None, 0]])
def test_each_output_has_its_own_out_dim(world: World, out_dims: list[int | None]) -> None:
    """Of several outputs each is batched along its own entry of out_dims."""
    samples = [random_numbers(world, MAPPED, 2, 3) + place for place in range(3)]
    places = list(zip(samples, out_dims, strict=True))
    placed = tuple(one[0] if dim is None else one.movedim(0, dim) for one, dim in places)
    function = build("separate", lambda x: None, vmap=lambda info, in_dims, x: (placed, tuple(out_dims)))
    actual = torch.vmap(function.apply)(random_numbers(world, MAPPED))
    expected = [one[0].expand(MAPPED, 2, 3) if dim is None else one for one, dim in places]
    expect_values(actual, expected, f"outputs that PyTorch makes where a class's vmap has out_dims {out_dims}")


@clause("Function.vmap.out-dims-honoured")
def test_outputs_that_are_no_tensors_pass(world: World) -> None:
    """A non-tensor output, with out_dim None, reaches the mapped function as vmap returned it."""
    seen: list[Any] = []
    x = random_numbers(world, 3, MAPPED)
    returned = (None, x * 2, 7), (None, 1, None)
    function = build("separate", lambda x: None, vmap=lambda info, in_dims, x: returned)

    def call(x: Any) -> Any:
        first, result, last = function.apply(x)
        seen.append((first, last))
        return result

    actual = torch.vmap(call, in_dims=1)(x)
    expect.equal(actual, (x * 2).movedim(1, 0), "PyTorch's result beside non-tensor ones")
    expect.equal(seen, [(None, 7)], "non-tensor outputs of vmap, as PyTorch returns them")


def _wave(x: Any, w: Any, n: Any) -> Any:
    """Compute the same as the Function below, in plain operations."""
    return x.sin() * w * n, (x * w).sum()


def _generated() -> Any:
    """The same, as a Function with its own derivatives and a vmap rule that PyTorch generates."""

    def keep(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs[:2])
        ctx.save_for_forward(*inputs[:2])
        ctx.n = inputs[2]

    def backward(ctx: Any, grad: Any, of_sum: Any) -> Any:
        x, w = ctx.saved_tensors
        return grad * x.cos() * w * ctx.n + of_sum * w, grad * x.sin() * ctx.n + of_sum * x, None

    def jvp(ctx: Any, tx: Any, tw: Any, tn: Any) -> Any:
        x, w = ctx.saved_tensors
        return ctx.n * (x.cos() * tx * w + x.sin() * tw), (tx * w + x * tw).sum()

    return build("separate", _wave, keep, backward=backward, jvp=jvp, generate_vmap_rule=True)


def _mapped_inputs(world: World, in_dims: list[int | None]) -> tuple[list[torch.Tensor], tuple[int | None, ...]]:
    x, w = random_numbers(world, MAPPED, 3), random_numbers(world, MAPPED, 3) + 2
    inputs = [one[0] if dim is None else one.movedim(0, dim) for one, dim in zip((x, w), in_dims, strict=True)]
    return inputs, tuple(in_dims)


def _expect_as_plain(call: Any, what: str) -> None:
    """Assert that a call gives for the Function what it gives for the plain operations."""
    function = _generated()
    for place, (one, expected) in enumerate(zip(call(function.apply), call(_wave), strict=True)):
        expect.close(one, expected, f"{what}, part {place}, by a generated vmap rule")


@clause("Function.vmap.generated")
@cases(in_dims=[[0, 0], [1, 0], [0, None], [None, 1]])
def test_a_generated_rule_maps_forward(world: World, in_dims: list[int | None]) -> None:
    """torch.vmap of a class with generate_vmap_rule equals the same operations under torch.vmap, nested too."""
    inputs, dims = _mapped_inputs(world, in_dims)
    _expect_as_plain(lambda call: torch.vmap(lambda x, w: call(x, w, 3), in_dims=dims)(*inputs), "PyTorch's result")
    nested = torch.vmap(torch.vmap(lambda x: _generated().apply(x, x, 2)[0]))
    x = random_numbers(world, MAPPED, 2, 3)
    expect.close(nested(x), x.sin() * x * 2, "PyTorch's result of nested torch.vmap by a generated vmap rule")


@clause("Function.vmap.generated")
@cases(in_dims=[[0, 0], [1, 0], [0, None], [None, 1]])
def test_a_generated_rule_maps_backward(world: World, in_dims: list[int | None]) -> None:
    """The gradient of each sample, and the gradient of the sum of all samples, are those of the plain operations."""
    inputs, dims = _mapped_inputs(world, in_dims)

    def each(call: Any) -> Any:
        def loss(x: Any, w: Any) -> Any:
            wave, total = call(x, w, 3)
            return (wave**2).sum() + total

        return torch.vmap(torch.func.grad(loss, argnums=(0, 1)), in_dims=dims)(*inputs)

    def together(call: Any) -> Any:
        leaves = [one.clone().requires_grad_() for one in inputs]
        wave, total = torch.vmap(lambda x, w: call(x, w, 3), in_dims=dims)(*leaves)
        return torch.autograd.grad((wave**2).sum() + total.sum(), leaves)

    _expect_as_plain(each, "PyTorch's gradient of each sample")
    _expect_as_plain(together, "PyTorch's gradient of the sum of all samples")


@clause("Function.vmap.generated")
@cases(in_dims=[[0, 0], [1, 0], [0, None], [None, 1]])
def test_a_generated_rule_maps_jvp(world: World, in_dims: list[int | None]) -> None:
    """The tangents of each sample, and of all samples at once, are those of the plain operations."""
    inputs, dims = _mapped_inputs(world, in_dims)
    directions = tuple(one.cos() for one in inputs)

    def each(call: Any) -> Any:
        def tangents(x: Any, w: Any, tx: Any, tw: Any) -> Any:
            return torch.func.jvp(lambda x, w: call(x, w, 3), (x, w), (tx, tw))[1]

        return torch.vmap(tangents, in_dims=dims * 2)(*inputs, *directions)

    def together(call: Any) -> Any:
        mapped = torch.vmap(lambda x, w: call(x, w, 3), in_dims=dims)
        return torch.func.jvp(mapped, tuple(inputs), directions)[1]

    _expect_as_plain(each, "PyTorch's tangent of each sample")
    _expect_as_plain(together, "PyTorch's tangent of all samples")
