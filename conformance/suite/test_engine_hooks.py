"""What PyTorch promises about hooks: their order in a backward pass, and hooks of saved tensors."""

from __future__ import annotations

from typing import Any

import torch

from conformance.kit import World, cases, clause, expect
from conformance.kit.functions import build, expect_value, leaf, tensor


@clause("Function.attributes.hook-order")
@cases(form=["combined", "separate"])
def test_hooks_run_in_order(world: World, form: str) -> None:
    """Hooks are registered last first; each writes its name, and the gradient that retain_grad has kept by then."""
    ran: list[tuple[str, Any]] = []

    def note(name: str, value: Any = None) -> Any:
        ran.append((name, result.grad))
        return value

    function = build(form, lambda x: x * 2, backward=lambda ctx, grad: note("backward", grad))
    result = function.apply(leaf(world, 1.0))
    result.grad_fn.register_hook(lambda inputs, outputs: note("node hook"))
    result.grad_fn.register_prehook(lambda grads: note("pre-hook"))
    result.retain_grad()
    result.register_hook(lambda grad: note("first tensor hook", grad * 10))
    result.register_hook(lambda grad: note("second tensor hook"))
    result.backward()
    expected = ["first tensor hook", "second tensor hook", "pre-hook", "backward", "node hook"]
    kept = dict(ran)
    expect.equal([name for name, _ in ran], expected, "the order in which PyTorch runs hooks")
    expect_value(kept["first tensor hook"], None, "the gradient that retain_grad has kept when tensor hooks run")
    expect_value(kept["pre-hook"], tensor(world, 10.0), "the gradient that retain_grad has kept when pre-hooks run")


def _saver(form: str, reads: int = 1) -> Any:
    """A Function of (x, w) that saves w, and reads it ``reads`` times in backward."""

    def backward(ctx: Any, grad: Any) -> Any:
        return grad * sum(ctx.saved_tensors[0] for _ in range(reads)), None

    return build(
        form, lambda x, w: x * w, lambda ctx, inputs, output: ctx.save_for_backward(inputs[1]), backward=backward
    )


@clause("Function.save_for_backward.hooks-innermost")
@cases(form=["combined", "separate"])
def test_the_innermost_hooks_alone_are_used(world: World, form: str) -> None:
    """Two pairs of hooks, one within the other: the inner pair packs and unpacks, the outer one does nothing."""
    used: list[str] = []

    def pair(name: str) -> Any:
        def pack(value: Any) -> Any:
            used.append(f"{name} pack")
            return value

        def unpack(value: Any) -> Any:
            used.append(f"{name} unpack")
            return value

        return torch.autograd.graph.saved_tensors_hooks(pack, unpack)

    x, w = leaf(world, 1.0), tensor(world, 3.0)
    with pair("outer"), pair("inner"):
        result = _saver(form).apply(x, w)
    result.backward()
    expect.equal(used, ["inner pack", "inner unpack"], "the saved-tensor hooks that PyTorch called")
    expect.equal(x.grad, w, "gradient under two pairs of saved-tensor hooks")


@clause("Function.save_for_backward.hooks-innermost")
@cases(form=["combined", "separate"], reads=[1, 3])
def test_unpack_runs_whenever_saved_tensors_are_read(world: World, form: str, reads: int) -> None:
    """Not before backward; then once for each reading, in each of two passes."""
    unpacked: list[Any] = []

    def unpack(value: Any) -> Any:
        unpacked.append(value)
        return value

    x, w = leaf(world, 1.0), tensor(world, 3.0)
    with torch.autograd.graph.saved_tensors_hooks(lambda one: one, unpack):
        result = _saver(form, reads).apply(x, w)
    expect.equal(len(unpacked), 0, "calls of unpack before backward")
    for passes in (1, 2):
        torch.autograd.grad(result, x, retain_graph=True)
        expect.equal(len(unpacked), reads * passes, f"calls of unpack after {passes} passes with {reads} readings each")


@clause("Function.save_for_backward.hooks-refused")
@cases(form=["combined", "separate"])
def test_a_pack_hook_may_not_change_its_tensor(world: World, form: str) -> None:
    """The hook doubles its tensor in place."""
    x, w = leaf(world, 1.0), tensor(world, 3.0)

    def save() -> Any:
        with torch.autograd.graph.saved_tensors_hooks(lambda one: one.mul_(2), lambda one: one):
            return _saver(form).apply(x, w)

    expect.raises(RuntimeError, save, "PyTorch raises an error for a pack hook that changes its tensor in place")


@clause("Function.save_for_backward.hooks-refused")
@cases(form=["combined", "separate"], inside=[True, False])
def test_hooks_that_are_disabled_raise(world: World, form: str, inside: bool) -> None:
    """Hooks that are set while disabled raise, and so does saving a tensor under hooks that were disabled since."""
    hooks = torch.autograd.graph.saved_tensors_hooks(lambda one: one, lambda one: one)
    disabled = torch.autograd.graph.disable_saved_tensors_hooks("not here")
    outer, inner = (disabled, hooks) if inside else (hooks, disabled)

    def save() -> Any:
        with outer, inner:
            return _saver(form).apply(leaf(world, 1.0), tensor(world, 3.0))

    expect.raises(RuntimeError, save, "PyTorch raises the given message if saved-tensor hooks are disabled", "not here")
