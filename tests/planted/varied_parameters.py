"""Bugs that show if weights are a parameter, as in a module."""

from __future__ import annotations

import torch
from torch.autograd.function import once_differentiable

from tests.correct import varied_parameters as right

SPEC = "Function"


class GradientLeftOnTheParameter(right.Linear):
    """Accumulates the gradient of a parameter in its ``grad``, and returns None.

    Breaks: Function.backward.gradient
    """

    inputs = right.Linear.inputs

    @staticmethod
    @torch.compiler.disable
    def forward(ctx, x, w):
        ctx.is_parameter = isinstance(w, torch.nn.Parameter)
        return right.Linear.forward(ctx, x, w)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        of_x, of_w = right.Linear.backward(ctx, grad)
        if not ctx.is_parameter:
            return of_x, of_w
        _, w = ctx.saved_tensors
        w.grad = of_w if w.grad is None else w.grad + of_w
        return of_x, None


class ParametersAreFrozen(right.Linear):
    """Returns None for a parameter, as if it were frozen.

    Breaks: Function.backward.gradient
    """

    inputs = right.Linear.inputs

    @staticmethod
    @torch.compiler.disable
    def forward(ctx, x, w):
        ctx.is_frozen = isinstance(w, torch.nn.Parameter)
        return right.Linear.forward(ctx, x, w)

    @staticmethod
    def backward(ctx, grad):
        of_x, of_w = right.Linear.backward(ctx, grad)
        return of_x, None if ctx.is_frozen else of_w


class ParameterSavedByItsData(right.Linear):
    """Saves the ``data`` of a parameter, which bypasses the version check.

    Breaks: Function.save_for_backward.protects
    """

    inputs = right.Linear.inputs

    @staticmethod
    @torch.compiler.disable
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w.data if isinstance(w, torch.nn.Parameter) else w)
        return x @ w

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        return right.Linear.backward(ctx, grad)


class HookLeftOnTheParameter(right.Linear):
    """Registers a hook on a parameter at each call, and never removes it.

    Breaks: Function.forward.flags-untouched
    """

    inputs = right.Linear.inputs

    @staticmethod
    @torch.compiler.disable
    def forward(ctx, x, w):
        if isinstance(w, torch.nn.Parameter) and w.requires_grad:
            w.register_post_accumulate_grad_hook(lambda weight: None)
        return right.Linear.forward(ctx, x, w)


class HookLeftOnTheInput(right.Linear):
    """Registers a hook on its input at each call, and never removes it.

    Breaks: Function.forward.flags-untouched
    """

    inputs = right.Linear.inputs

    @staticmethod
    @torch.compiler.disable
    def forward(ctx, x, w):
        if x.requires_grad:
            x.register_hook(lambda gradient: None)
        return right.Linear.forward(ctx, x, w)


class HookLeftInBackward(right.Linear):
    """Registers a hook on its saved weights in each backward, and never removes it.

    Breaks: Function.forward.flags-untouched
    """

    inputs = right.Linear.inputs

    @staticmethod
    @torch.compiler.disable
    def backward(ctx, grad):
        _, w = ctx.saved_tensors
        if w.requires_grad and w.is_leaf:
            w.register_hook(lambda gradient: None)
        return right.Linear.backward(ctx, grad)
