"""Engine bugs in compiled code."""

from __future__ import annotations

import torch


def _inline_forward(where) -> None:
    """Make Dynamo trace only forward if ``where()`` is true, as it does if no gradient is needed."""
    from torch._dynamo.variables.misc import AutogradFunctionVariable as Traced

    original = Traced.call_apply

    def call_apply(self, *args):
        if not where():
            return original(self, *args)
        with torch.no_grad():
            return original(self, *args)

    Traced.call_apply = call_apply


def backward_is_left_out() -> None:
    """Differentiates through forward in compiled code, and ignores backward.

    Breaks: Function.compile.methods
    """
    _inline_forward(lambda: torch._C._functorch.maybe_current_level() is None)


def backward_is_left_out_below_a_transform() -> None:
    """Differentiates through forward in compiled code under torch.func, and ignores backward.

    Breaks: Function.compile.transforms
    """
    _inline_forward(lambda: torch._C._functorch.maybe_current_level() is not None)
