"""Wrap the places where PyTorch's vmap calls the rule of a Function, to make it misbehave."""

from __future__ import annotations

from torch._C._functorch import TransformType
from torch._functorch import autograd_function as engine

#: Whether a class overrides vmap, as PyTorch sees it.
overridden = engine.has_overridden_vmap_rule


def around_vmap(wrapper) -> None:
    """Run ``wrapper(original, interpreter, cls, *operands)`` instead of what torch.vmap does with a Function."""
    table = engine.custom_function_call.functorch_table
    original = table[TransformType.Vmap]

    def call(interpreter, cls, *operands, **named):
        return wrapper(original, interpreter, cls, *operands, **named)

    table[TransformType.Vmap] = call


def around_rule(change) -> None:
    """Call a class's vmap with ``change(info, in_dims, args)``."""

    def wrapper(original, interpreter, cls, *operands, **named):
        if not overridden(cls):
            return original(interpreter, cls, *operands, **named)
        rule = cls.vmap
        cls.vmap = staticmethod(lambda info, in_dims, *args: _called(rule, change(info, in_dims, args)))
        try:
            return original(interpreter, cls, *operands, **named)
        finally:
            cls.vmap = staticmethod(rule)

    around_vmap(wrapper)


def _called(rule, changed):
    info, in_dims, args = changed
    return rule(info, in_dims, *args)


def around_results(change) -> None:
    """Pass what a class's vmap returns through ``change(output, out_dims)``."""

    def wrapper(original, interpreter, cls, *operands, **named):
        if not overridden(cls):
            return original(interpreter, cls, *operands, **named)
        rule = cls.vmap
        cls.vmap = staticmethod(lambda *args: change(*rule(*args)))
        try:
            return original(interpreter, cls, *operands, **named)
        finally:
            cls.vmap = staticmethod(rule)

    around_vmap(wrapper)
