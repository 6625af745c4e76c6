"""What PyTorch promises about mark_dirty and mark_non_differentiable."""

from __future__ import annotations

from typing import Any

import torch

from conformance.kit import World, cases, clause, expect
from conformance.kit.functions import build, leaf, tensor


def _double(when: str, through_data: bool) -> Any:
    """A Function that doubles its first input in place, marked dirty before or after the change.

    A change through ``.data`` leaves no trace by itself: what PyTorch knows of it, it knows from mark_dirty.
    """

    def compute(x: Any, *others: Any) -> Any:
        (x.data if through_data else x).mul_(2)
        return x

    def backward(ctx: Any, *grads: Any) -> Any:
        return (grads[0] * 2, *[None] * (len(ctx.needs_input_grad) - 1))

    if when != "before":
        form = "separate" if when == "in setup_context" else "combined"
        return build(form, compute, lambda ctx, inputs, _: ctx.mark_dirty(inputs[0]), backward=backward)

    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, *others: Any) -> Any:
            ctx.mark_dirty(x)
            return compute(x)

    Double.backward = staticmethod(backward)  # type: ignore[method-assign]
    return Double


@clause("Function.mark_dirty.before-or-after")
@cases(through_data=[False, True], when=["before", "after", "in setup_context"])
def test_marked_before_or_after_the_change(world: World, through_data: bool, when: str) -> None:
    """The result is the changed input itself, part of the graph, with the right gradient."""
    function, x, weights = _double(when, through_data), leaf(world, 1.0, 2.0), tensor(world, 3.0, 5.0)
    for others in ((), (None, 2.5)):
        changed = x * 1
        result = function.apply(changed, *others)
        told = f"an input marked dirty {when}"
        expect.that(result is changed, f"PyTorch's apply returns {told} as the same object", result, changed)
        expect.equal(result.detach(), tensor(world, 2.0, 4.0), f"values of {told}")
        node = type(changed.grad_fn)
        expect.that(node is function._backward_cls, f"{told} has the Function's node as grad_fn", changed.grad_fn)
        (gradient,) = torch.autograd.grad((changed * weights).sum(), x)
        expect.equal(gradient, tensor(world, 6.0, 10.0), f"gradient through {told}")


@clause("Function.mark_dirty.before-or-after")
@cases(through_data=[False, True], when=["before", "after", "in setup_context"])
def test_a_view_marked_before_or_after_the_change(world: World, through_data: bool, when: str) -> None:
    """A view that is changed carries the change, and its gradient, into the tensor it is a view of."""
    function, x = _double(when, through_data), leaf(world, 1.0, 2.0, 3.0)
    base = x * 1
    function.apply(base[1:])
    told = f"a view marked dirty {when}"
    expect.equal(base.detach(), tensor(world, 1.0, 4.0, 6.0), f"values of the base of {told}")
    (gradient,) = torch.autograd.grad((base * tensor(world, 1.0, 10.0, 100.0)).sum(), x)
    expect.equal(gradient, tensor(world, 1.0, 20.0, 200.0), f"gradient through the base of {told}")


@clause("Function.mark_dirty.protects")
@cases(through_data=[False, True], when=["before", "after", "in setup_context"])
def test_overwritten_values_are_not_used(world: World, through_data: bool, when: str) -> None:
    """An earlier operation that needs the overwritten input, or its own overwritten output, raises in backward."""
    function = _double(when, through_data)
    earlier: dict[str, Any] = {
        "a * a, whose input": lambda a: (a * a, a),
        "sin, whose input": lambda a: (a.sin(), a),
        "exp, whose output": lambda a: (a.exp(),) * 2,
    }
    for name, operation in earlier.items():
        result, overwritten = operation(leaf(world, 1.0, 2.0) * 1)
        before = overwritten._version
        function.apply(overwritten)
        what = f"PyTorch's backward of {name} was overwritten by a Function that marked it dirty {when}, raises"
        expect.that(overwritten._version > before, f"a tensor marked dirty {when} counts as changed", before)
        if result is overwritten:
            result = result * 1
        expect.raises(RuntimeError, result.sum().backward, what)


@clause("Function.mark_dirty.protects")
@cases(when=["before", "after", "in setup_context"])
def test_an_operation_that_needs_no_value_goes_on(world: World, when: str) -> None:
    """An earlier operation that does not need the overwritten value has its right gradient still."""
    x = leaf(world, 1.0, 2.0)
    a = x * 1
    result = a * 3
    _double(when, False).apply(a)
    (gradient,) = torch.autograd.grad(result.sum(), x)
    expect.equal(gradient, tensor(world, 3.0, 3.0), "gradient of an operation that needs no overwritten value")


def _outputs(x: Any, *marked: int) -> Any:
    return x * 2, x.sum(), x.argsort(), (x * 3).reshape(-1, 1)


def _mark(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.mark_non_differentiable(*[output[place] for place in inputs[1:]])


MARKED = ((0,), (1,), (2,), (3,), (0, 3), (1, 2), (2, 1, 0), ())


@clause("Function.mark_non_differentiable.no-grad")
@cases(form=["combined", "separate"])
def test_marked_outputs_need_no_grad(world: World, form: str) -> None:
    """Of several outputs those that were marked do not require grad and have no grad_fn; the others do."""
    function = build(form, _outputs, _mark, backward=lambda ctx, *grads: (None,) * len(ctx.needs_input_grad))
    for marked in MARKED:
        for place, output in enumerate(function.apply(leaf(world, 3.0, 1.0, 2.0), *marked)):
            if place == 2 and place not in marked:
                continue  # an integer tensor: there is no promise about it
            expected, where = place not in marked, f"output {place}, with {marked} marked"
            expect.equal(output.requires_grad, expected, f"requires_grad that PyTorch gave to {where}")
            expect.equal(output.grad_fn is not None, expected, f"whether PyTorch gave a grad_fn to {where}")


@clause("Function.mark_non_differentiable.no-grad")
@cases(form=["combined", "separate"])
def test_a_single_marked_output_needs_no_grad(world: World, form: str) -> None:
    """A Function's only output can be marked too, by itself or in a tuple, whatever its inputs."""
    for outputs in (lambda x, y: x + y, lambda x, y: (x + y,)):

        def keep(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.mark_non_differentiable(*(output if isinstance(output, tuple) else (output,)))

        function = build(form, outputs, keep)
        for x, y in ((leaf(world, 1.0), leaf(world, 2.0)), (leaf(world, 1.0) * 2, tensor(world, 2.0))):
            result = function.apply(x, y)
            result = result[0] if isinstance(result, tuple) else result
            expect.equal(result.requires_grad, False, "requires_grad that PyTorch gave to a single marked output")


@clause("Function.mark_non_differentiable.zero-gradient")
@cases(form=["combined", "separate"])
def test_backward_gets_zeros_for_marked_outputs(world: World, form: str) -> None:
    """In backward there is a gradient for every output: zeros of its shape if it was marked."""
    seen: list[tuple[Any, ...]] = []

    def backward(ctx: Any, *grads: Any) -> Any:
        seen.append(grads)
        return (tensor(world, 0.0, 0.0, 0.0), *[None] * (len(ctx.needs_input_grad) - 1))

    function = build(form, _outputs, _mark, backward=backward)
    for marked in MARKED:
        outputs = function.apply(leaf(world, 3.0, 1.0, 2.0), *marked)
        used = {0, 1, 3} - set(marked)
        torch.stack([outputs[place].sum() for place in used]).sum().backward()
        actual = seen[-1]
        expect.equal(len(actual), 4, f"number of gradients that PyTorch passed to backward, with {marked} marked")
        for place, (one, output) in enumerate(zip(actual, outputs, strict=True)):
            what = f"gradient that PyTorch passed to backward for output {place}, with {marked} marked"
            expect.close(one, torch.full_like(output, place in used), what, rtol=0, atol=0)
