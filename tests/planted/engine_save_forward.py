"""Engine bugs around save_for_forward."""

from __future__ import annotations

import torch
from torch.autograd.function import FunctionCtx

from tests.planted._engine import around_jvp, on_ctx


def anything_saved_for_forward() -> None:
    """Accepts anything in save_for_forward.

    Breaks: Function.save_for_forward.only-tensors
    """
    FunctionCtx.save_for_forward = lambda ctx, *values: setattr(ctx, "saved_for_forward", values)


def numbers_saved_for_forward() -> None:
    """Checks only the first argument of save_for_forward, and accepts floats.

    Breaks: Function.save_for_forward.only-tensors
    """

    def save_for_forward(ctx, *values):
        if values and not isinstance(values[0], torch.Tensor | float | None):
            raise TypeError("save_for_forward takes tensors")
        ctx.saved_for_forward = values

    FunctionCtx.save_for_forward = save_for_forward


def _read_in_jvp(change) -> None:
    """Make ctx.saved_tensors read as ``change(ctx, tensors)`` in jvp."""

    def jvp(original, ctx, *tangents):
        ctx.in_jvp = True
        try:
            return original(ctx, *tangents)
        finally:
            del ctx.in_jvp

    around_jvp(jvp)
    on_ctx("saved_tensors", lambda ctx, tensors: change(ctx, tensors) if hasattr(ctx, "in_jvp") else tensors)


def saved_for_forward_reversed() -> None:
    """Reverses ctx.saved_tensors in jvp, unless None was saved.

    Breaks: Function.save_for_forward.saved-tensors
    """
    _read_in_jvp(lambda ctx, tensors: tensors if any(one is None for one in tensors) else tensors[::-1])


def jvp_reads_what_was_saved_for_backward() -> None:
    """Returns what was saved for backward in jvp.

    Breaks: Function.save_for_forward.saved-tensors
    """

    def save_for_forward(ctx, *values):
        ctx.saved_for_forward = ctx.to_save or values

    FunctionCtx.save_for_forward = save_for_forward


def saved_inputs_lose_their_values() -> None:
    """Returns ones for the first of several saved tensors in jvp.

    Breaks: Function.save_for_forward.saved-tensors
    """

    def change(ctx, tensors):
        several = len(tensors) > 1 and not any(one is None for one in tensors)
        return (torch.ones_like(tensors[0]), *tensors[1:]) if several else tensors

    _read_in_jvp(change)


def none_saved_for_forward_dropped() -> None:
    """Drops a saved None in jvp.

    Breaks: Function.save_for_forward.none
    """
    _read_in_jvp(lambda ctx, tensors: tuple(one for one in tensors if one is not None))


def none_saved_for_forward_becomes_zero() -> None:
    """Returns a zero for a saved None in jvp.

    Breaks: Function.save_for_forward.none
    """
    _read_in_jvp(lambda ctx, tensors: tuple(torch.zeros(()) if one is None else one for one in tensors))


def none_refused_by_save_for_forward() -> None:
    """Refuses None in save_for_forward.

    Breaks: Function.save_for_forward.none
    """

    def save_for_forward(ctx, *values):
        if not all(isinstance(value, torch.Tensor) for value in values):
            raise TypeError("save_for_forward takes tensors")
        ctx.saved_for_forward = values

    FunctionCtx.save_for_forward = save_for_forward
