"""What PyTorch promises about views, inputs that are returned, and tangents of both."""

from __future__ import annotations

from typing import Any

import torch

from conformance.kit import World, cases, clause, expect
from conformance.kit.functions import build, forward_mode, leaf, tensor


@clause("Function.apply.view-output")
@cases(form=["combined", "separate"], outputs=[1, 2])
def test_a_view_may_be_read_and_not_changed(world: World, form: str, outputs: int) -> None:
    """A Function returns one view of its input, or two."""
    function = build(
        form,
        lambda x: x[:2] if outputs == 1 else (x[:2], x[1:]),
        backward=lambda ctx, *grads: torch.cat([grads[0], grads[0][:1] * 0]),
    )

    def call(x: Any) -> Any:
        result = function.apply(x * 1)
        return result if outputs == 1 else result[0]

    x = leaf(world, 1.0, 2.0, 3.0)
    call(x).sum().backward()
    expect.equal(x.grad, tensor(world, 1.0, 1.0, 0.0), "gradient through a view that a Function returned")
    what = "PyTorch raises an error for a change in place of a view that a Function returned"
    expect.raises(RuntimeError, lambda: call(x).mul_(2), what, "view")


@clause("Function.setup_context.returned-input")
@cases(form=["combined", "separate"])
def test_a_returned_input_is_another_tensor(world: World, form: str) -> None:
    """Forward returns its input; the result has its memory, the Function's node, and backward's gradient."""
    seen: list[Any] = []

    def keep(ctx: Any, inputs: Any, output: Any) -> None:
        seen.extend((inputs[0].data_ptr(), output.data_ptr()))

    function = build(form, lambda x: x, keep, backward=lambda ctx, grad: grad * 3)
    x = leaf(world, 1.0, 2.0)
    result = function.apply(x)
    expect.that(result is not x, "an input that forward returned comes out as another tensor")
    pointers = [*seen, result.data_ptr()]
    expect.equal(pointers, [x.data_ptr()] * 3, "the memory of an input that forward returned")
    (gradient,) = torch.autograd.grad(result.sum(), x)
    expect.equal(gradient, tensor(world, 3.0, 3.0), "gradient of an input that forward returned")


@clause("Function.jvp.view")
@cases(form=["combined", "separate"])
def test_the_tangent_of_a_view_is_a_view(world: World, form: str) -> None:
    """Forward returns a view: a jvp that returns the same view of the tangent works, one that copies raises."""
    pair = tensor(world, 1.0, 2.0), tensor(world, 5.0, 7.0)
    right = build(form, lambda x: x[1:], jvp=lambda ctx, tangent: tangent[1:])
    expect.equal(forward_mode(right.apply, pair)[0], tensor(world, 7.0), "tangent of a view")
    wrong = build(form, lambda x: x[1:], jvp=lambda ctx, tangent: tangent[1:].clone())
    what = "PyTorch raises an error for a jvp that copies although forward returns a view"
    expect.raises(RuntimeError, lambda: forward_mode(wrong.apply, pair), what, "view")


@clause("Function.jvp.in-place")
@cases(form=["combined", "separate"])
def test_the_tangent_of_a_changed_input_is_changed(world: World, form: str) -> None:
    """Forward doubles its input in place: a jvp that doubles the tangent in place works, any other raises an error."""

    def call(jvp: Any) -> Any:
        double = build(form, lambda x: x.mul_(2), lambda ctx, inputs, output: ctx.mark_dirty(inputs[0]), jvp=jvp)
        return forward_mode(double.apply, (tensor(world, 1.0), tensor(world, 5.0)))[0]

    expect.equal(
        call(lambda ctx, tangent: tangent.mul_(2)), tensor(world, 10.0), "tangent of an input changed in place"
    )
    what = "PyTorch raises an error for a jvp that does not change the tangent of an input changed in place"
    expect.raises(RuntimeError, lambda: call(lambda ctx, tangent: tangent * 2), what, "inplace")


@clause("Function.jvp.at-once")
@cases(form=["combined", "separate"])
def test_jvp_runs_within_apply(world: World, form: str) -> None:
    """Forward, setup_context and jvp each write their name, and so does the caller after apply."""
    ran: list[str] = []

    def note(name: str, value: Any = None) -> Any:
        ran.append(name)
        return value

    function = build(
        form,
        lambda x: note("forward", x * 2),
        lambda ctx, inputs, output: note("setup"),
        jvp=lambda ctx, tangent: note("jvp", tangent * 2),
    )
    forward_mode(lambda x: note("after apply", function.apply(x)), (tensor(world, 1.0), tensor(world, 5.0)))
    expect.equal(ran[:3] + ran[-1:], ["forward", "setup", "jvp", "after apply"], "the order of PyTorch's calls")
