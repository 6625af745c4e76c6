"""Functions written with the class under test, in whichever form it has, and comparison of nested values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch.utils import _pytree as pytree

from conformance.kit import Subject, World, expect, need
from conformance.kit.functions import nothing


class Pair(NamedTuple):
    """A named tuple, as one kind of nesting."""

    left: Any
    right: Any


def written(
    subject: Subject,
    forward: Callable[..., Any] | None,
    backward: Callable[..., Any] | None = None,
    keep: Callable[[Any, tuple[Any, ...], Any], None] = nothing,
    jvp: Callable[..., Any] | None = None,
) -> Callable[..., Any]:
    """Derive from the class under test, and return a callable of the derived class.

    Args:
        subject: the class under test.
        forward: ``forward(*args)`` gives the nested result; None leaves forward_extended as it is.
        backward: ``backward(ctx, *grads)`` gives the nested gradients; None leaves backward_extended as it is.
        keep: ``keep(ctx, inputs, output)`` saves and marks. ctx is the instance if the class has instances.
        jvp: ``jvp(ctx, *tangents)`` gives the nested tangents; None leaves jvp_extended as it is.
    """
    need(subject.function is not None, "a plain callable, not a class to derive from")
    base: Any = subject.function
    if hasattr(base, "setup_context_extended"):
        members = {"setup_context_extended": staticmethod(keep)}
        members |= {"forward_extended": staticmethod(forward)} if forward else {}
        members |= {"backward_extended": staticmethod(backward)} if backward else {}
        members |= {"jvp_extended": staticmethod(jvp)} if jvp else {}
        return type("Written", (base,), members).apply  # type: ignore[attr-defined]

    def forward_extended(self: Any, *args: Any) -> Any:
        assert forward is not None
        output = forward(*args)
        keep(self, args, output)
        return output

    methods: dict[str, Any] = {"forward_extended": forward_extended} if forward else {}
    methods |= {"backward_extended": backward} if backward else {}
    methods |= {"jvp_extended": jvp} if jvp else {}
    made = type("Written", (base,), methods)
    return lambda *args: made()(*args)


def nestings(world: World) -> dict[str, tuple[Any, ...]]:
    """Arguments nested in many ways; all tensors differ, none is a leaf."""

    def tensor(*shape: int, key: object = "") -> torch.Tensor:
        return world.tensor(0, shape, torch.float64, "nested", key).requires_grad_() * 1

    return {
        "tensors alone": (tensor(2), tensor(3)),
        "one tensor": (tensor(2, 2),),
        "a tuple": ((tensor(2), tensor(3)),),
        "a list": ([tensor(2), tensor(3), tensor(2, key=1)],),
        "a named tuple": (Pair(tensor(2), tensor(3)), tensor(1)),
        "a dict": ({"b": tensor(2), "a": tensor(3)},),
        "None and plain values": (None, tensor(2), 3, [None, tensor(3), "name", 2.5], {"flag": True}),
        "deep": (
            [{"in": (tensor(2), [tensor(3)])}, tensor(1)],
            Pair({"x": tensor(2, 1)}, [None, (tensor(4),)]),
        ),
        "tuples of one and none": ((tensor(2),), (), [[]], {}, [(tensor(3),)]),
    }


def mapped(function: Callable[[torch.Tensor], Any], value: Any, plain: Callable[[Any], Any] = lambda x: x) -> Any:
    """Apply a function to every tensor of a nested value, and another one to every other leaf.

    >>> mapped(lambda x: x.item(), Pair(torch.tensor(1), [torch.tensor(2), "a"]))
    Pair(left=1, right=[2, 'a'])
    """
    return pytree.tree_map(lambda part: function(part) if isinstance(part, torch.Tensor) else plain(part), value)


def tensors_in(value: Any) -> list[torch.Tensor]:
    """The tensors of a nested value, in order."""
    return [part for part in pytree.tree_leaves(value) if isinstance(part, torch.Tensor)]


def expect_nested(actual: Any, expected: Any, what: str) -> None:
    """Assert that two nested values are nested alike, with the same tensors and plain values in the same places."""
    if isinstance(expected, torch.Tensor):
        expect.that(isinstance(actual, torch.Tensor), what, actual, expected)
        expect.close(actual, expected.detach(), what)
        return
    expect.that(type(actual) is type(expected), f"{what}: type", type(actual).__name__, type(expected).__name__)
    if isinstance(expected, dict):
        expect.that(actual.keys() == expected.keys(), f"{what}: keys", list(actual), list(expected))
        for key, part in expected.items():
            expect_nested(actual[key], part, f"{what}[{key!r}]")
    elif isinstance(expected, tuple | list):
        expect.that(len(actual) == len(expected), f"{what}: length", len(actual), len(expected))
        for index, (one, other) in enumerate(zip(actual, expected, strict=True)):
            expect_nested(one, other, f"{what}[{index}]")
    else:
        expect.that(actual == expected, what, actual, expected)
