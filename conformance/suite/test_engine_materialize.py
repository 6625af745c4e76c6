"""What PyTorch promises about set_materialize_grads: whether missing gradients and tangents arrive as zeros or None."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

from conformance.kit import World, cases, clause
from conformance.kit.functions import build, expect_values, forward_mode, leaf, nothing, tensor

Keep = Callable[[Any, tuple[Any, ...], Any], None]
#: What a method got for each choice of outputs or inputs in use; their shapes are SHAPES.
Received = Iterator[tuple[set[int], tuple[Any, ...]]]
SHAPES = ((2,), (), (1, 3))


def _asked(value: bool) -> Keep:
    return lambda ctx, inputs, output: ctx.set_materialize_grads(value)


def _gradients(world: World, form: str, keep: Keep) -> Received:
    """Return the arguments of backward for each choice of outputs that a loss uses."""
    seen: list[tuple[Any, ...]] = []

    def compute(x: Any) -> Any:
        return x * 2, x.sum(), x.sum().expand(1, 3) * 1

    def backward(ctx: Any, *grads: Any) -> Any:
        seen.append(grads)
        return tensor(world, 0.0, 0.0)

    function, choices = build(form, compute, keep, backward=backward), ({0}, {1}, {2}, {0, 2}, {1, 2})
    for used in choices:
        outputs = function.apply(leaf(world, 1.0, 2.0))
        torch.stack([outputs[place].sum() for place in used]).sum().backward()
        yield used, seen[-1]


def _tangents(world: World, form: str, keep: Keep) -> Received:
    """Return the arguments of jvp for each choice of inputs that have a tangent."""
    seen: list[tuple[Any, ...]] = []

    def jvp(ctx: Any, *tangents: Any) -> Any:
        seen.append(tangents)
        return tensor(world, 0.0)[0]

    function, choices = build(form, lambda *xs: sum(x.sum() for x in xs), keep, jvp=jvp), ({0}, {1}, {2}, {0, 2})
    inputs = tensor(world, 1.0, 2.0), tensor(world, 3.0)[0], tensor(world, 4.0, 5.0, 6.0).reshape(1, 3)
    for used in choices:
        pairs = [(x, torch.ones_like(x)) if place in used else x for place, x in enumerate(inputs)]
        forward_mode(function.apply, *pairs)
        yield used, seen[-1]


def _expect(world: World, received: Received, what: str, zeros: bool = True) -> None:
    """Assert that a method got ones for what is in use, and zeros for all else, or None."""
    for used, values in received:
        ones = [torch.ones(shape, dtype=torch.float64, device=world.device) for shape in SHAPES]
        expected = [one if place in used else one * 0 if zeros else None for place, one in enumerate(ones)]
        expect_values(values, expected, f"values, with {sorted(used)} in use, that PyTorch passed to {what}")


@clause("Function.set_materialize_grads.default")
@cases(form=["combined", "separate"])
def test_gradients_are_zeros_by_default(world: World, form: str) -> None:
    """By default, backward gets zeros for outputs that no loss used."""
    _expect(world, _gradients(world, form, nothing), "backward by default,")


@clause("Function.set_materialize_grads.default")
@cases(form=["combined", "separate"])
def test_tangents_are_zeros_by_default(world: World, form: str) -> None:
    """By default, jvp gets zeros for inputs that have no tangent."""
    _expect(world, _tangents(world, form, nothing), "jvp by default,")


@clause("Function.set_materialize_grads.zeros")
@cases(form=["combined", "separate"])
def test_gradients_are_zeros_when_asked(world: World, form: str) -> None:
    """With True the gradient of an unused output reaches backward as zeros of the output's shape."""
    _expect(world, _gradients(world, form, _asked(True)), "backward after set_materialize_grads(True)")


@clause("Function.set_materialize_grads.zeros")
@cases(form=["combined", "separate"])
def test_tangents_are_zeros_when_asked(world: World, form: str) -> None:
    """With True the tangent of an input without one reaches jvp as zeros of the input's shape."""
    _expect(world, _tangents(world, form, _asked(True)), "jvp after set_materialize_grads(True)")


@clause("Function.set_materialize_grads.zeros")
@cases(form=["combined", "separate"])
def test_zeros_whatever_another_class_asked_for(world: World, form: str) -> None:
    """With True, backward gets zeros even after other classes and other calls have chosen None."""
    list(_gradients(world, form, _asked(False)))
    _expect(world, _gradients(world, form, _asked(True)), "backward after set_materialize_grads(True)")


@clause("Function.set_materialize_grads.none")
@cases(form=["combined", "separate"])
def test_gradients_are_none_when_asked(world: World, form: str) -> None:
    """With False the gradient of an unused output reaches backward as None, and the others as they are."""
    _expect(world, _gradients(world, form, _asked(False)), "backward after set_materialize_grads(False)", zeros=False)


@clause("Function.set_materialize_grads.none")
@cases(form=["combined", "separate"])
def test_tangents_are_none_when_asked(world: World, form: str) -> None:
    """With False the tangent of an input without one reaches jvp as None, and the others as they are."""
    _expect(world, _tangents(world, form, _asked(False)), "jvp after set_materialize_grads(False)", zeros=False)
