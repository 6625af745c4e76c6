"""Engine bugs in compiled code."""

from __future__ import annotations

import torch


def _inline_forward(where) -> None:
    """Dynamo traces forward alone, as it does where nothing needs a gradient, where ``where()`` says so."""
    from torch._dynamo.variables.misc import AutogradFunctionVariable as Traced

    original = Traced.call_apply

    def call_apply(self, *args):
        if not where():
            return original(self, *args)
        with torch.no_grad():
            return original(self, *args)

    Traced.call_apply = call_apply


def backward_is_left_out() -> None:
    """Compiled code differentiates what forward does, and leaves the backward of a class out.

    Breaks: Function.compile.methods
    """
    _inline_forward(lambda: torch._C._functorch.maybe_current_level() is None)


def backward_is_left_out_below_a_transform() -> None:
    """The same if torch.func differentiates compiled code.

    Breaks: Function.compile.transforms
    """
    _inline_forward(lambda: torch._C._functorch.maybe_current_level() is not None)
