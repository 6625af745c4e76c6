"""Engine bugs around the graph: what is recorded, how nodes are connected, and what is freed."""

from __future__ import annotations

import torch
from torch.autograd.function import BackwardCFunction

from tests.planted._engine import around_apply, around_member, on_ctx


def setup_context_records() -> None:
    """Turns grad mode on in setup_context.

    Breaks: Function.forward.no-graph
    """

    def setup_context(original, cls, *args):
        with torch.enable_grad():
            return original(*args)

    around_member("setup_context", setup_context)


def next_functions_know_no_index() -> None:
    """Reads every index in next_functions as 0.

    Breaks: Function.attributes.next-index
    """
    on_ctx("next_functions", lambda node, reached: tuple((other, 0) for other, _ in reached))


def clearing_saved_tensors_does_nothing() -> None:
    """Frees nothing in maybe_clear_saved_tensors.

    Breaks: Function.attributes.clear-saved
    """
    BackwardCFunction.maybe_clear_saved_tensors = lambda node: None


def bools_stop_the_gradient() -> None:
    """Detaches all outputs if one is of dtype bool.

    Breaks: Function.mark_non_differentiable.integers
    """

    def apply(original, cls, *args, **kwargs):
        result = original(cls, *args, **kwargs)
        if isinstance(result, tuple) and any(getattr(one, "dtype", None) is torch.bool for one in result):
            return tuple(one.detach() if isinstance(one, torch.Tensor) else one for one in result)
        return result

    around_apply(apply)
