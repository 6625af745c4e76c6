"""Engine bugs around hooks: of tensors, of nodes, and of saved tensors."""

from __future__ import annotations

import contextlib

import torch

from tests.planted._engine import on_ctx


def tensor_hooks_run_backwards() -> None:
    """Runs the last registered hook of a tensor first.

    Breaks: Function.attributes.hook-order
    """
    original = torch.Tensor.register_hook

    def register_hook(tensor, hook):
        handle = original(tensor, hook)
        *first, last = tensor._backward_hooks.items()
        tensor._backward_hooks.clear()
        tensor._backward_hooks.update([last, *first])
        return handle

    torch.Tensor.register_hook = register_hook


def retain_grad_keeps_what_came_in() -> None:
    """Keeps in retain_grad the gradient from before the tensor's hooks.

    Breaks: Function.attributes.hook-order
    """

    def retain_grad(tensor):
        tensor.register_hook(lambda grad: setattr(tensor, "grad", grad.clone()))

    torch.Tensor.retain_grad = retain_grad


def unpack_runs_twice() -> None:
    """Unpacks saved tensors twice whenever they are read.

    Breaks: Function.save_for_backward.hooks-innermost
    """
    slot = torch._C._FunctionBase.saved_tensors

    def read(ctx, tensors):
        return tensors if ctx._forward_cls.clear_saved_tensors_on_access else slot.__get__(ctx)

    on_ctx("saved_tensors", read)


def hooks_cannot_be_disabled() -> None:
    """Ignores disable_saved_tensors_hooks.

    Breaks: Function.save_for_backward.hooks-refused
    """
    torch.autograd.graph.disable_saved_tensors_hooks = contextlib.nullcontext
