"""What PyTorch's generated vmap rule loses of a Function, and the same Function with nothing to lose."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from conformance.kit.recording import many
from conformance.kit.subject import Subject
from conformance.kit.tensors import differentiable

NO_DIRTY = "PyTorch's generated rule loses what ctx.mark_dirty was given, and then refuses every batch"
LOSSES = (
    "PyTorch's generated rule does not map ctx.saved_for_forward (ctx.saved_tensors is mapped), keeps the batch "
    "dimensions of the last save alone, and loses what ctx.mark_non_differentiable was given"
)

NAMED = "forward returns a named tuple as it is, which PyTorch's generated rule does not take: return tuple(...) of it"


def with_plain_tuples(subject: Subject) -> Subject:
    """The subject on a subclass whose forward returns a plain tuple where the class returns a named one."""
    function: Any = subject.function

    def forward(*inputs: Any) -> Any:
        found = function.forward(*inputs)
        return tuple(found) if isinstance(found, tuple) else found

    return subject.overriding(forward=forward)


def without_losses(subject: Subject) -> Subject | None:
    """The subject on a subclass for which the generated rule loses nothing; None where it has a rule of its own.

    The subclass saves all tensors in one order for both directions, hands each method those that the class saved for
    it, and gives zeros for the tangents that jvp leaves out.
    """
    function: Any = subject.function
    if function is None or not subject.generates_vmap:
        return None

    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        given = _Saves(ctx)
        function.setup_context(given, inputs, output)
        both = (*given.for_backward, *given.for_forward)
        ctx.save_for_backward(*both)
        ctx.save_for_forward(*both)
        ctx.conformance_saves = len(given.for_backward), [_blank(value) for value in many(output)]

    def backward(ctx: Any, *grads: Any) -> Any:
        count, _ = ctx.conformance_saves
        return function.backward(_Saved(ctx, ctx.saved_tensors[:count]), *grads)

    def jvp(ctx: Any, *tangents: Any) -> Any:
        count, blanks = ctx.conformance_saves
        found = function.jvp(_Saved(ctx, ctx.saved_tensors[count:] or ctx.saved_tensors), *tangents)
        if not isinstance(found, tuple) or len(found) != len(blanks):
            return found
        return tuple(blank() if tangent is None else tangent for tangent, blank in zip(found, blanks, strict=True))

    members = {"setup_context": setup_context, "backward": backward, "jvp": jvp}
    return subject.overriding(**{name: member for name, member in members.items() if subject.defines(name)})


class _Around:
    """Stands for a ctx, and passes on whatever it does not know."""

    def __init__(self, ctx: Any, **own: Any) -> None:
        vars(self).update(own, _ctx=ctx)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ctx, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._ctx, name, value)


class _Saves(_Around):
    """Keeps what is saved, in place of saving it."""

    def __init__(self, ctx: Any) -> None:
        super().__init__(ctx, for_backward=(), for_forward=())

    def save_for_backward(self, *tensors: torch.Tensor | None) -> None:
        vars(self).update(for_backward=tensors)

    def save_for_forward(self, *tensors: torch.Tensor | None) -> None:
        vars(self).update(for_forward=tensors)


class _Saved(_Around):
    """Has these tensors saved, under either name."""

    def __init__(self, ctx: Any, tensors: tuple[torch.Tensor | None, ...]) -> None:
        super().__init__(ctx, saved_tensors=tensors, saved_for_forward=tensors)


def _blank(value: Any) -> Callable[[], Any]:
    """Makes the tangent of an output that has none: zeros where PyTorch takes a tangent at all."""
    if not differentiable(value):
        return lambda: None
    return partial(torch.zeros, value.shape, dtype=value.dtype, device=value.device)
