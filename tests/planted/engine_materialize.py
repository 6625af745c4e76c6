"""Engine bugs around set_materialize_grads."""

from __future__ import annotations

import torch
from torch.autograd.function import FunctionCtx

from tests.planted._engine import around_backward, around_jvp, around_member, combined


def _ctx_of(cls, args):
    return args[0] if args and hasattr(args[0], "save_for_backward") else None


def _before_the_methods(change) -> None:
    """Call ``change(ctx)`` before forward or setup_context."""

    def member(original, cls, *args):
        ctx = _ctx_of(cls, args)
        if ctx is not None:
            change(ctx)
        return original(*args)

    around_member(
        "forward",
        lambda original, cls, *args: member(original, cls, *args) if combined(cls) else original(*args),
    )
    around_member("setup_context", member)


def none_by_default() -> None:
    """Passes None to backward by default, without set_materialize_grads.

    Breaks: Function.set_materialize_grads.default
    """
    _before_the_methods(lambda ctx: setattr(ctx, "materialize_grads", False))


def none_for_tangents_by_default() -> None:
    """Passes None to jvp by default, without set_materialize_grads.

    Breaks: Function.set_materialize_grads.default
    """
    asked = FunctionCtx.set_materialize_grads

    def set_materialize_grads(ctx, value):
        ctx.asked_for = value
        asked(ctx, value)

    def jvp(original, ctx, *tangents):
        if len(tangents) == 3 and None is not tangents[2] and not hasattr(ctx, "asked_for"):
            tangents = tuple(one if one is None or one.any() else None for one in tangents)
        return original(ctx, *tangents)

    FunctionCtx.set_materialize_grads = set_materialize_grads
    around_jvp(jvp)


def true_means_false() -> None:
    """Treats every call of set_materialize_grads as False.

    Breaks: Function.set_materialize_grads.zeros
    """
    FunctionCtx.set_materialize_grads = lambda ctx, value: setattr(ctx, "materialize_grads", False)


def zeros_without_a_shape() -> None:
    """Passes zero-dimensional zeros for gradients after set_materialize_grads(True).

    Breaks: Function.set_materialize_grads.zeros
    """

    def set_materialize_grads(ctx, value):
        ctx.asked_for = value
        ctx.materialize_grads = value

    def backward(original, ctx, *grads):
        if getattr(ctx, "asked_for", False) and grads[-1] is not None and not grads[-1].any():
            grads = (*grads[:-1], grads[-1].sum())
        return original(ctx, *grads)

    FunctionCtx.set_materialize_grads = set_materialize_grads
    around_backward(backward)


def ones_for_tangents() -> None:
    """Passes tangents of ones to jvp after set_materialize_grads(True).

    Breaks: Function.set_materialize_grads.zeros
    """

    def set_materialize_grads(ctx, value):
        ctx.asked_for = value
        ctx.materialize_grads = value

    def jvp(original, ctx, *tangents):
        if getattr(ctx, "asked_for", False):
            tangents = tuple(one if one is None else torch.ones_like(one) for one in tangents)
        return original(ctx, *tangents)

    FunctionCtx.set_materialize_grads = set_materialize_grads
    around_jvp(jvp)


def false_is_ignored() -> None:
    """Ignores set_materialize_grads.

    Breaks: Function.set_materialize_grads.none
    """
    FunctionCtx.set_materialize_grads = lambda ctx, value: None


def false_holds_for_backward_alone() -> None:
    """Passes zeros to jvp even after set_materialize_grads(False).

    Breaks: Function.set_materialize_grads.none
    """

    def jvp(original, ctx, *tangents):
        if len(tangents) == 3 and getattr(ctx, "asked_for", True) is False:
            shapes = ((2,), (), (1, 3))
            tangents = tuple(
                torch.zeros(shape, dtype=torch.float64) if one is None else one
                for one, shape in zip(tangents, shapes, strict=True)
            )
        return original(ctx, *tangents)

    def set_materialize_grads(ctx, value):
        ctx.asked_for = value
        ctx.materialize_grads = value

    FunctionCtx.set_materialize_grads = set_materialize_grads
    around_jvp(jvp)


def false_for_one_is_false_for_all() -> None:
    """Ignores set_materialize_grads(True) once any Function has passed False.

    Breaks: Function.set_materialize_grads.zeros
    """
    choices = []

    def set_materialize_grads(ctx, value):
        choices.append(value)
        ctx.materialize_grads = all(choices)

    FunctionCtx.set_materialize_grads = set_materialize_grads
