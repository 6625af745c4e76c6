"""Small Functions in either form, for tests of PyTorch itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.autograd import forward_ad

from conformance.kit import expect
from conformance.kit.world import World

#: The number of samples in the batches that tests of vmap make.
MAPPED = 4


def nothing(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    """Store nothing on ctx."""


def build(
    form: str, compute: Callable[..., Any], keep: Callable[[Any, tuple[Any, ...], Any], None] = nothing, **members: Any
) -> Any:
    """Make a Function class in one of the two forms.

    Args:
        form: ``"combined"`` or ``"separate"``.
        compute: the outputs from the inputs; it gets no ctx in either form.
        keep: ``keep(ctx, inputs, output)`` stores on ctx what is needed later.
        **members: backward, vjp, jvp, vmap as plain functions; generate_vmap_rule.

    >>> twice = build("separate", lambda x: 2 * x, backward=lambda ctx, grad: 2 * grad)
    >>> twice.apply(torch.ones(1))
    tensor([2.])
    """

    def forward(ctx: Any, *inputs: Any) -> Any:
        output = compute(*inputs)
        keep(ctx, inputs, output)
        return output

    writing = {"forward": forward} if form == "combined" else {"forward": compute, "setup_context": keep}
    methods = {name: staticmethod(member) if callable(member) else member for name, member in members.items()}
    statics = {name: staticmethod(member) for name, member in writing.items()}
    return type("Small", (torch.autograd.Function,), {**statics, **methods})


def tensor(world: World, *numbers: float) -> torch.Tensor:
    """Return a float64 tensor of these numbers on the device under test."""
    return torch.tensor(numbers, dtype=torch.float64, device=world.device)


def random_numbers(world: World, *shape: int) -> torch.Tensor:
    """Return a float64 tensor of random numbers."""
    return world.tensor(0, shape, torch.float64, "numbers")


def leaf(world: World, *numbers: float) -> torch.Tensor:
    """Return such a tensor that requires grad."""
    return tensor(world, *numbers).requires_grad_()


def forward_mode(call: Callable[..., Any], *pairs: Any) -> tuple[Any, ...]:
    """Call with dual numbers, and return the tangent of each output, None if it has none.

    Args:
        call: what is differentiated.
        *pairs: each argument: ``(primal, tangent)``, or any other value, which is passed unchanged.

    >>> forward_mode(torch.sin, (torch.zeros(1), torch.ones(1)))
    (tensor([1.]),)
    """
    with forward_ad.dual_level():
        arguments = [forward_ad.make_dual(*pair) if isinstance(pair, tuple) else pair for pair in pairs]
        output = call(*arguments)
        outputs = output if isinstance(output, tuple) else (output,)
        return tuple(forward_ad.unpack_dual(one).tangent if isinstance(one, torch.Tensor) else None for one in outputs)


def expect_value(actual: Any, expected: Any, what: str) -> None:
    """Assert that a tensor has the same numbers, and that any other value is the very same object."""
    if isinstance(expected, torch.Tensor):
        expect.equal(actual, expected, what)
    else:
        expect.that(actual is expected, what, expect.shown(actual), expect.shown(expected))


def expect_values(actual: Sequence[Any], expected: Sequence[Any], what: str) -> None:
    """Assert that there are as many values as expected, each the same as the expected one at its place."""
    expect.equal(len(actual), len(expected), f"number of {what}")
    for place, (one, other) in enumerate(zip(actual, expected, strict=True)):
        expect_value(one, other, f"value {place} of {what}")
