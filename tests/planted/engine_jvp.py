"""Engine bugs around jvp."""

from __future__ import annotations

import torch
from torch.autograd.function import Function

from tests.planted._engine import around_jvp


def missing_jvp_gives_no_tangent() -> None:
    """Returns zero tangents for a class without jvp.

    Breaks: Function.jvp.overridden
    """

    def jvp(original, ctx, *tangents):
        return torch.zeros_like(tangents[0]) if ctx._forward_cls.jvp is Function.jvp else original(ctx, *tangents)

    around_jvp(jvp)


def missing_jvp_raises_runtime_error() -> None:
    """Raises RuntimeError for a class without jvp.

    Breaks: Function.jvp.overridden
    """

    def jvp(original, ctx, *tangents):
        if ctx._forward_cls.jvp is Function.jvp:
            raise RuntimeError("no jvp")
        return original(ctx, *tangents)

    around_jvp(jvp)


def missing_jvp_unnoticed_by_torch_func() -> None:
    """Returns zero tangents under torch.func.jvp for a class without jvp.

    Breaks: Function.jvp.overridden
    """

    def jvp(ctx, *tangents):
        if hasattr(ctx, "_forward_cls") and ctx._forward_cls.__name__.endswith("Generated"):
            return torch.zeros_like(tangents[0])
        raise NotImplementedError("no jvp")

    Function.jvp = staticmethod(jvp)


def tangents_reversed() -> None:
    """Reverses the tangents of more than three inputs.

    Breaks: Function.jvp.receives
    """
    around_jvp(lambda original, ctx, *tangents: original(ctx, *(tangents[::-1] if len(tangents) > 3 else tangents)))


def zeros_for_what_is_no_tensor() -> None:
    """Passes a zero to jvp for an input that is not a tensor.

    Breaks: Function.jvp.receives
    """

    def jvp(original, ctx, *tangents):
        changed = [torch.zeros(()) if one is None else one for one in tangents]
        return original(ctx, *(changed if len(tangents) > 3 else tangents))

    around_jvp(jvp)


def nothing_for_what_is_no_tensor() -> None:
    """Omits None for inputs that are not tensors when jvp is called under torch.func.

    Breaks: Function.jvp.receives
    """

    def jvp(original, ctx, *tangents):
        if ctx._forward_cls.__name__.endswith("Generated") and len(tangents) == 5:
            tangents = (*[one for one in tangents if one is not None] * 2, None)
        return original(ctx, *tangents)

    around_jvp(jvp)


def tangent_of_a_single_input_doubled() -> None:
    """Doubles the tangent of a single input with two dimensions.

    Breaks: Function.jvp.receives
    """

    def jvp(original, ctx, *tangents):
        single = len(tangents) == 1 and tangents[0] is not None and tangents[0].dim() == 2
        return original(ctx, 2 * tangents[0]) if single else original(ctx, *tangents)

    around_jvp(jvp)


def jvp_called_twice() -> None:
    """Calls jvp twice.

    Breaks: Function.jvp.receives
    """

    def jvp(original, ctx, *tangents):
        original(ctx, *tangents)
        return original(ctx, *tangents)

    around_jvp(jvp)


def none_is_refused() -> None:
    """Refuses None next to a tensor from jvp.

    Breaks: Function.jvp.none-allowed
    """

    def jvp(original, ctx, *tangents):
        result = original(ctx, *tangents)
        if isinstance(result, tuple) and any(one is None for one in result):
            raise RuntimeError("jvp returned None")
        return result

    around_jvp(jvp)


def none_shifts_the_others() -> None:
    """Doubles the tangents that follow a None.

    Breaks: Function.jvp.none-allowed
    """

    def jvp(original, ctx, *tangents):
        result = original(ctx, *tangents)
        if isinstance(result, tuple) and result[0] is None:
            return tuple(one if one is None else 2 * one for one in result)
        return result

    around_jvp(jvp)
