"""What PyTorch promises about the attributes of ctx and of a result's grad_fn, and about instances."""

from __future__ import annotations

from typing import Any

import torch

from conformance.kit import World, cases, clause, expect
from conformance.kit.functions import build, expect_value, expect_values, leaf, tensor


@clause("Function.attributes.reflect")
@cases(form=["combined", "separate"])
def test_ctx_shows_what_was_asked(world: World, form: str) -> None:
    """to_save, saved_for_forward, dirty_tensors and non_differentiable are None at first, then the last arguments."""
    x, w = leaf(world, 1.0, 2.0), tensor(world, 3.0, 4.0)
    seen: list[tuple[str, Any, Any]] = []

    def keep(ctx: Any, inputs: Any, output: Any) -> None:
        given: dict[tuple[str, str], Any] = {
            ("save_for_backward", "to_save"): [(w, x), (x,)],
            ("save_for_forward", "saved_for_forward"): [(x,), (w, w)],
            ("mark_dirty", "dirty_tensors"): [(w,)],
            ("mark_non_differentiable", "non_differentiable"): [(), (output[0],)],
        }
        seen.extend((f"{name} before any method was called", getattr(ctx, name), None) for _, name in given)
        for (method, name), choices in given.items():
            for tensors in choices:
                getattr(ctx, method)(*tensors)
                seen.append((f"{name} after {method} of {len(tensors)}", getattr(ctx, name), tensors))

    build(form, lambda x, w: (x * 2, w), keep).apply(x, w)
    expect.equal(len(seen), 11, "number of attributes of ctx that could be looked at")
    for name, actual, expected in seen:
        same = type(actual) is type(expected) and list(map(id, actual or ())) == list(map(id, expected or ()))
        expect.that(same, f"PyTorch's ctx.{name}", expect.shown(actual), expect.shown(expected))


@clause("Function.attributes.reflect")
@cases(form=["combined", "separate"])
def test_needs_input_grad_can_be_read_early(world: World, form: str) -> None:
    """needs_input_grad can be read in the forward pass, and is the same in backward."""
    seen: list[Any] = []

    def backward(ctx: Any, grad: Any) -> Any:
        seen.append(tuple(ctx.needs_input_grad))
        return tuple(grad if isinstance(one, torch.Tensor) else None for one in arguments)

    def keep(ctx: Any, inputs: Any, output: Any) -> None:
        seen.append(tuple(ctx.needs_input_grad))

    for needs in ((True, False), (False, True), (True, True)):
        x, y = (tensor(world, 1.0).requires_grad_(need) for need in needs)
        arguments = (x, 2.5, y)
        build(form, lambda x, n, y: x * n + y, keep, backward=backward).apply(*arguments).backward()
        early, late = seen[-2:]
        expect.equal(early, (needs[0], False, needs[1]), "PyTorch's ctx.needs_input_grad in the forward pass")
        expect.equal(late, early, "PyTorch's ctx.needs_input_grad in backward, compared with the forward pass")


@clause("Function.attributes.reflect")
@cases(form=["combined", "separate"], value=[True, False])
def test_materialize_grads_can_be_assigned(world: World, form: str, value: bool) -> None:
    """Assigning ctx.materialize_grads does what set_materialize_grads does."""
    seen: list[Any] = []

    def keep(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.materialize_grads = not value
        ctx.materialize_grads = value

    def backward(ctx: Any, *grads: Any) -> Any:
        seen.append(grads)
        return grads[0]

    build(form, lambda x: (x * 2, x + 1), keep, backward=backward).apply(leaf(world, 1.0))[0].backward()
    expected = tensor(world, 0.0) if value else None
    expect_value(seen[-1][1], expected, f"gradient of an unused output after materialize_grads = {value}")


@clause("Function.attributes.reflect")
def test_no_vmap_rule_is_generated_by_default(world: World) -> None:
    """generate_vmap_rule is False on Function and on a class that does not set it, and as set on one that does."""
    plain, asking = build("separate", lambda x: x), build("separate", lambda x: x, generate_vmap_rule=True)
    for name, function, expected in (("Function", torch.autograd.Function, False), ("a class", plain, False)):
        expect.equal(function.generate_vmap_rule, expected, f"PyTorch's generate_vmap_rule of {name}")
    expect.equal(asking.generate_vmap_rule, True, "generate_vmap_rule of a class that sets it")


def _product(form: str) -> Any:
    def keep(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs[:2])

    def backward(ctx: Any, grad: Any) -> Any:
        x, y = ctx.saved_tensors
        return grad * y, grad * x, None

    return build(form, lambda x, y, n: x * y, keep, backward=backward)


@clause("Function.attributes.node")
@cases(form=["combined", "separate"])
def test_grad_fn_knows_its_place_in_the_graph(world: World, form: str) -> None:
    """name() is a text, next_functions leads to the nodes of the inputs, requires_grad is True."""
    x, y = leaf(world, 2.0), leaf(world, 3.0)
    before, after = x * 1, y + 1
    for first, second in ((before, after), (after, before), (before, tensor(world, 1.0))):
        result = _product(form).apply(first, second, 5)
        node = result.grad_fn
        name = node.name()
        expect.that(isinstance(name, str) and name, "PyTorch's grad_fn.name() is a text", name)
        expect.that(node.requires_grad is True, "PyTorch's grad_fn.requires_grad", node.requires_grad, True)
        reached = node.next_functions
        expect.that(isinstance(reached, tuple), "PyTorch's grad_fn.next_functions is a tuple", reached)
        nodes = [one[0] for one in reached if one[0] is not None]
        expected = [one.grad_fn for one in (first, second) if one.requires_grad]
        expect_values(nodes, expected, "nodes of the inputs in PyTorch's grad_fn.next_functions")


@clause("Function.attributes.node")
@cases(form=["combined", "separate"])
def test_grad_fn_keeps_notes(world: World, form: str) -> None:
    """Each node has its own metadata dict, which keeps its entries."""
    one, other = (_product(form).apply(leaf(world, 2.0), leaf(world, 3.0), 5) for _ in range(2))
    expect.that(isinstance(one.grad_fn.metadata, dict), "PyTorch's grad_fn.metadata is a dict", one.grad_fn.metadata)
    one.grad_fn.metadata["note"] = [1]
    expect.equal(one.grad_fn.metadata, {"note": [1]}, "PyTorch's grad_fn.metadata after a note was put there")
    expect.equal(other.grad_fn.metadata, {}, "PyTorch's grad_fn.metadata of another call")


@clause("Function.attributes.node")
@cases(form=["combined", "separate"])
def test_grad_fn_calls_hooks(world: World, form: str) -> None:
    """A prehook may replace what backward gets, a hook what backward returns, until their handles are removed."""
    x, y = leaf(world, 2.0), leaf(world, 3.0)
    seen: list[tuple[Any, ...]] = []

    def prehook(grad_outputs: Any) -> Any:
        seen.append(("prehook", grad_outputs[0].item()))
        return (grad_outputs[0] * 10,)

    def hook(grad_inputs: Any, grad_outputs: Any) -> Any:
        seen.append(("hook", grad_inputs[0].item(), grad_inputs[1].item(), grad_outputs[0].item()))
        return grad_inputs[0] * 100, grad_inputs[1]

    result = _product(form).apply(x, y, 5)
    handles = result.grad_fn.register_prehook(prehook), result.grad_fn.register_hook(hook)
    actual = torch.autograd.grad(result, (x, y), tensor(world, 7.0), retain_graph=True)
    expected_calls = [("prehook", 7.0), ("hook", 210.0, 140.0, 70.0)]
    expect.equal(seen, expected_calls, "what PyTorch passed to the hooks of a grad_fn")
    expect.equal(torch.cat(actual), tensor(world, 21000.0, 140.0), "gradients that the hooks of a grad_fn made")
    for handle in handles:
        handle.remove()
    actual = torch.autograd.grad(result, (x, y), tensor(world, 7.0))
    expect.equal(torch.cat(actual), tensor(world, 21.0, 14.0), "gradients once the hooks of a grad_fn were removed")
    expect.equal(len(seen), 2, "number of times PyTorch called the hooks of a grad_fn, the last of which were removed")


@clause("Function.attributes.node")
@cases(form=["combined", "separate"])
def test_grad_fn_gives_saved_tensors(world: World, form: str) -> None:
    """saved_tensors can be read from the node; maybe_clear_saved_tensors leaves what backward still needs."""
    x, y = leaf(world, 2.0), tensor(world, 3.0)
    result = _product(form).apply(x, y, 5)
    for moment in ("before", "after"):
        what = f"PyTorch's grad_fn.saved_tensors {moment} maybe_clear_saved_tensors"
        expect_values(result.grad_fn.saved_tensors, (x, y), what)
        result.grad_fn.maybe_clear_saved_tensors()
    (gradient,) = torch.autograd.grad(result, x)
    expect.equal(gradient, y, "gradient after maybe_clear_saved_tensors")
