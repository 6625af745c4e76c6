"""Engine bugs around keyword arguments, subclasses, and freeing saved tensors and gradients early."""

from __future__ import annotations

import torch
from torch.autograd.function import BackwardCFunction, FunctionMeta

from tests.planted._engine import around_apply


def tensors_given_by_name_lose_their_gradient() -> None:
    """Detaches tensors that are passed by keyword.

    Breaks: Function.apply.keywords
    """

    def apply(original, cls, *args, **kwargs):
        named = {name: one.detach() if isinstance(one, torch.Tensor) else one for name, one in kwargs.items()}
        return original(cls, *args, **named)

    around_apply(apply)


def subclasses_are_stripped() -> None:
    """Passes tensor subclasses to forward as plain tensors.

    Breaks: Function.apply.subclass
    """

    def apply(original, cls, *args, **kwargs):
        plain = (
            one.as_subclass(torch.Tensor) if isinstance(one, torch.Tensor) and type(one) is not torch.Tensor else one
            for one in args
        )
        return original(cls, *plain, **kwargs)

    around_apply(apply)


def saved_tensors_can_be_read_again() -> None:
    """Ignores clear_saved_tensors_on_access.

    Breaks: Function.clear_saved_tensors_on_access.once
    """
    made = FunctionMeta.__init__

    def init(cls, *description):
        made(cls, *description)
        cls.clear_saved_tensors_on_access = False

    FunctionMeta.__init__ = init


def a_second_list_of_gradients() -> None:
    """Passes backward a copy of the list of gradients, so none of them can be freed.

    Breaks: Function.boxed_grads_call.list
    """
    original = BackwardCFunction.apply_boxed
    BackwardCFunction.apply_boxed = lambda ctx, grads: original(ctx, list(grads))
