"""Wrap the places where PyTorch's engine calls the methods of a Function, to make it misbehave."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch.autograd.function import BackwardCFunction, FunctionMeta


def around_apply(wrapper: Callable[..., Any]) -> None:
    """Run ``wrapper(original, cls, *args, **kwargs)`` instead of ``Function.apply``."""
    inherited = vars(torch.autograd.Function)["apply"]  # written in C since torch 2.15

    def original(cls: Any, *args: Any, **kwargs: Any) -> Any:
        return inherited.__get__(None, cls)(*args, **kwargs)

    def apply(cls: Any, *args: Any, **kwargs: Any) -> Any:
        return wrapper(original, cls, *args, **kwargs)

    torch.autograd.Function.apply = classmethod(apply)


def around_backward(wrapper: Callable[..., Any]) -> None:
    """Run ``wrapper(original, ctx, *grads)`` instead of backward or vjp."""
    original = BackwardCFunction.apply
    BackwardCFunction.apply = lambda ctx, *grads: wrapper(original, ctx, *grads)


def around_jvp(wrapper: Callable[..., Any]) -> None:
    """Run ``wrapper(original, ctx, *tangents)`` instead of jvp."""
    original = BackwardCFunction.apply_jvp
    BackwardCFunction.apply_jvp = lambda ctx, *tangents: wrapper(original, ctx, *tangents)


def around_member(name: str, wrapper: Callable[..., Any]) -> None:
    """Run ``wrapper(original, cls, *args)`` instead of a static method of every class defined from now on."""
    made = FunctionMeta.__init__

    def init(cls: Any, *description: Any) -> None:
        made(cls, *description)
        if name in vars(cls):
            original = getattr(cls, name)

            @functools.wraps(original)
            def member(*args: Any, **kwargs: Any) -> Any:
                return wrapper(original, cls, *args, **kwargs)

            setattr(cls, name, staticmethod(member))

    FunctionMeta.__init__ = init


def combined(cls: Any) -> bool:
    """Whether forward takes ctx."""
    return cls.setup_context is torch.autograd.Function.setup_context


def on_ctx(name: str, read: Callable[[Any, Any], Any]) -> None:
    """Make attribute ``name`` of ctx read as ``read(ctx, value)``; it can still be set."""
    slot = getattr(torch._C._FunctionBase, name)
    setattr(BackwardCFunction, name, property(lambda ctx: read(ctx, slot.__get__(ctx)), slot.__set__))
