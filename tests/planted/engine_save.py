"""Engine bugs around save_for_backward and save_for_forward."""

from __future__ import annotations

import torch
from torch.autograd.function import FunctionCtx

from tests.planted._engine import on_ctx


def _save_for_backward(change) -> None:
    """Pass tensors through ``change(ctx, tensors)`` before they are saved for backward."""

    def save_for_backward(ctx, *tensors):
        ctx.to_save = change(ctx, tensors)

    FunctionCtx.save_for_backward = save_for_backward


def _read_in_backward(change) -> None:
    """Make ctx.saved_tensors read as ``change(tensors)`` in backward."""
    on_ctx("saved_tensors", lambda ctx, tensors: change(tensors) if ctx.saved_for_forward is None else tensors)


def saved_none_dropped() -> None:
    """Drops None from ctx.saved_tensors.

    Breaks: Function.save_for_backward.none
    """
    _read_in_backward(lambda tensors: tuple(one for one in tensors if one is not None))


def saved_none_becomes_empty() -> None:
    """Returns an empty tensor for a saved None.

    Breaks: Function.save_for_backward.none
    """
    _read_in_backward(lambda tensors: tuple(torch.empty(0) if one is None else one for one in tensors))


def saved_none_refused() -> None:
    """Refuses None in save_for_backward.

    Breaks: Function.save_for_backward.none
    """

    def check(ctx, tensors):
        if any(tensor is None for tensor in tensors):
            raise TypeError("save_for_backward takes tensors")
        return tensors

    _save_for_backward(check)


def nones_come_last() -> None:
    """Moves None to the end of ctx.saved_tensors.

    Breaks: Function.save_for_backward.none
    """
    _read_in_backward(lambda tensors: tuple(sorted(tensors, key=lambda one: one is None)))


def changed_tensors_are_given() -> None:
    """Returns a saved tensor with its current values if it was changed in place, instead of raising.

    Breaks: Function.save_for_backward.in-place-check
    """

    def remember(ctx, tensors):
        ctx.unchecked = [None if one is None else one.detach() for one in tensors]
        return tensors

    def read(ctx):
        try:
            return torch._C._FunctionBase.saved_tensors.__get__(ctx)
        except RuntimeError as error:
            if "inplace" not in str(error):
                raise
            return tuple(ctx.unchecked)

    _save_for_backward(remember)
    _read_saved_tensors(read)


def _read_saved_tensors(read) -> None:
    torch.autograd.function.BackwardCFunction.saved_tensors = property(read)


def changed_outputs_are_given() -> None:
    """Saves outputs and intermediate values as copies, so that changing them goes unnoticed.

    Breaks: Function.save_for_backward.in-place-check
    """

    def copy(ctx, tensors):
        return tuple(one if one is None or one.requires_grad else one.clone() for one in tensors)

    _save_for_backward(copy)


def unchanged_tensors_are_refused() -> None:
    """Refuses saved tensors that were changed in forward before they were saved.

    Breaks: Function.save_for_backward.in-place-check
    """

    def read(ctx):
        tensors = torch._C._FunctionBase.saved_tensors.__get__(ctx)
        if any(one is not None and one._version and not one.requires_grad for one in tensors):
            raise RuntimeError("modified by an inplace operation")
        return tensors

    _read_saved_tensors(read)


def saved_tensors_stay_on_ctx() -> None:
    """Keeps saved tensors as an attribute of ctx, outputs too: a reference cycle.

    Breaks: Function.save_for_backward.no-leak
    """

    def keep(ctx, tensors):
        ctx.kept_for_later = tensors
        return tensors

    _save_for_backward(keep)


def intermediate_tensors_kept_in_a_list() -> None:
    """Keeps saved intermediate tensors forever.

    Breaks: Function.save_for_backward.no-leak
    """
    kept = []

    def keep(ctx, tensors):
        kept.extend(tensors)
        return tensors

    _save_for_backward(keep)


def backward_frees_nothing() -> None:
    """Keeps saved tensors after the backward pass.

    Breaks: Function.save_for_backward.no-leak
    """

    def read(ctx, tensors):
        ctx.kept_since_backward = tensors
        return tensors

    on_ctx("saved_tensors", read)


def hooks_not_called() -> None:
    """Never calls saved-tensor hooks.

    Breaks: Function.save_for_backward.hooks
    """

    class Hooks(torch.autograd.graph.saved_tensors_hooks):
        def __init__(self, pack, unpack):
            super().__init__(lambda tensor: tensor, lambda tensor: tensor)

    torch.autograd.graph.saved_tensors_hooks = Hooks


def unpacked_tensors_not_used() -> None:
    """Calls saved-tensor hooks, but ignores what unpack returns.

    Breaks: Function.save_for_backward.hooks
    """

    class Hooks(torch.autograd.graph.saved_tensors_hooks):
        def __init__(self, pack, unpack):
            def both(tensor):
                return tensor, pack(tensor)

            def second(pair):
                unpack(pair[1])
                return pair[0]

            super().__init__(both, second)

    torch.autograd.graph.saved_tensors_hooks = Hooks


def hooks_skip_intermediate_tensors() -> None:
    """Calls saved-tensor hooks for inputs and outputs only, not for intermediate tensors.

    Breaks: Function.save_for_backward.hooks
    """

    class Hooks(torch.autograd.graph.saved_tensors_hooks):
        def __init__(self, pack, unpack):
            def pack_some(tensor):
                known = tensor.requires_grad or not tensor.is_leaf
                return (pack(tensor),) if known else tensor

            super().__init__(pack_some, lambda packed: unpack(packed[0]) if isinstance(packed, tuple) else packed)

    torch.autograd.graph.saved_tensors_hooks = Hooks
