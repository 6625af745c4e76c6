"""Engine bugs around saved_tensors and needs_input_grad."""

from __future__ import annotations

import torch

from tests.planted._engine import around_member, on_ctx


def saved_tensors_reversed() -> None:
    """Reverses ctx.saved_tensors if more than three tensors were saved.

    Breaks: Function.backward.saved-tensors
    """
    on_ctx("saved_tensors", lambda ctx, tensors: tensors[::-1] if len(tensors) > 3 else tensors)


def saved_tensors_are_a_list() -> None:
    """Reads ctx.saved_tensors as a list if more than three tensors were saved.

    Breaks: Function.backward.saved-tensors
    """
    on_ctx("saved_tensors", lambda ctx, tensors: list(tensors) if len(tensors) > 3 else tensors)


def saved_once_each() -> None:
    """Returns a tensor once that was saved twice.

    Breaks: Function.backward.saved-tensors
    """

    def read(ctx, tensors):
        kept = []
        for tensor in tensors:
            if tensor is None or not any(tensor is other for other in kept):
                kept.append(tensor)
        return tuple(kept) if ctx.saved_for_forward is None else tensors

    on_ctx("saved_tensors", read)


def saved_tensors_detached() -> None:
    """Detaches saved tensors, so that second derivatives are silently wrong.

    Breaks: Function.backward.saved-tensors
    """
    on_ctx("saved_tensors", lambda ctx, tensors: tuple(None if one is None else one.detach() for one in tensors))


def saved_integers_become_floats() -> None:
    """Converts saved integer tensors to floating point.

    Breaks: Function.backward.saved-tensors
    """

    def read(ctx, tensors):
        return tuple(one.double() if one is not None and not one.is_floating_point() else one for one in tensors)

    on_ctx("saved_tensors", read)


def needs_input_grad_is_a_list() -> None:
    """Reads ctx.needs_input_grad as a list.

    Breaks: Function.backward.needs-input-grad
    """
    on_ctx("needs_input_grad", lambda ctx, needs: list(needs))


def needs_input_grad_all_true() -> None:
    """Reads ctx.needs_input_grad as True for every input.

    Breaks: Function.backward.needs-input-grad
    """
    on_ctx("needs_input_grad", lambda ctx, needs: tuple(True for _ in needs))


def needs_input_grad_shifted() -> None:
    """Sorts ctx.needs_input_grad, True first.

    Breaks: Function.backward.needs-input-grad
    """
    on_ctx("needs_input_grad", lambda ctx, needs: tuple(sorted(needs, reverse=True)))


def needs_input_grad_of_numbers() -> None:
    """Reads ctx.needs_input_grad as 1 and 0.

    Breaks: Function.backward.needs-input-grad
    """
    on_ctx("needs_input_grad", lambda ctx, needs: tuple(int(needed) for needed in needs))


def needs_input_grad_true_for_leaves_alone() -> None:
    """Reads ctx.needs_input_grad as False for inputs that are not leaves.

    Breaks: Function.backward.needs-input-grad
    """

    def forward(original, cls, *args):
        inputs = args[1:] if hasattr(args[0], "needs_input_grad") else args
        cls.leaves = tuple(isinstance(one, torch.Tensor) and one.is_leaf for one in inputs)
        return original(*args)

    def read(ctx, needs):
        leaves = getattr(ctx._forward_cls, "leaves", ())
        return tuple(a and b for a, b in zip(needs, leaves, strict=True)) if len(leaves) == len(needs) else needs

    around_member("forward", forward)
    on_ctx("needs_input_grad", read)
