"""Engine bugs around what must be refused."""

from __future__ import annotations

import torch
from torch.autograd.function import FunctionCtx

from tests.planted._engine import around_backward, around_member


def _values(result):
    return result if isinstance(result, tuple) else (result,)


def too_few_gradients_are_filled_up() -> None:
    """Fills gradients that backward did not return with None.

    Breaks: Function.backward.refused
    """

    def backward(original, ctx, *grads):
        values = _values(original(ctx, *grads))
        return values + (None,) * (len(ctx.needs_input_grad) - len(values))

    around_backward(backward)


def gradients_of_any_shape_are_taken() -> None:
    """Replaces a gradient with more than twice the elements of the incoming one by None.

    Breaks: Function.backward.refused
    """

    def backward(original, ctx, *grads):
        result = original(ctx, *grads)
        if not isinstance(result, tuple) or len(grads) != 1:
            return result
        most = 2 * grads[0].numel()
        return tuple(None if isinstance(one, torch.Tensor) and one.numel() > most else one for one in result)

    around_backward(backward)


def values_for_what_is_no_tensor_are_dropped() -> None:
    """Replaces a gradient for a number by None.

    Breaks: Function.backward.refused
    """

    def backward(original, ctx, *grads):
        values, needs = _values(original(ctx, *grads)), ctx.needs_input_grad
        if len(values) != len(needs):
            return values
        return tuple(value if needed else None for value, needed in zip(values, needs, strict=True))

    around_backward(backward)


def further_nones_are_refused() -> None:
    """Refuses more Nones than there are inputs.

    Breaks: Function.backward.refused
    """

    def backward(original, ctx, *grads):
        values = _values(original(ctx, *grads))
        if len(values) > len(ctx.needs_input_grad):
            raise RuntimeError("too many gradients")
        return values

    around_backward(backward)


def anything_is_saved() -> None:
    """Drops everything that is not a tensor in save_for_backward, instead of refusing it.

    Breaks: Function.save_for_backward.refused
    """

    def save_for_backward(ctx, *tensors):
        ctx.to_save = tuple(one for one in tensors if one is None or isinstance(one, torch.Tensor))

    FunctionCtx.save_for_backward = save_for_backward


def missing_out_dims_are_guessed() -> None:
    """Assumes out_dim 0 if vmap returns only its output.

    Breaks: Function.vmap.refused
    """

    def vmap(original, cls, *args):
        result = original(*args)
        return result if isinstance(result, tuple) else (result, 0)

    around_member("vmap", vmap)


def further_values_from_vmap_are_dropped() -> None:
    """Ignores further values if vmap returns more than two.

    Breaks: Function.vmap.refused
    """

    def vmap(original, cls, *args):
        result = original(*args)
        return result[:2] if isinstance(result, tuple) else result

    around_member("vmap", vmap)
