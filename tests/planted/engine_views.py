"""Engine bugs around views, returned inputs, and the tangents of both."""

from __future__ import annotations

import torch
from torch.autograd import forward_ad
from torch.autograd.function import FunctionCtx

from tests.planted._engine import around_apply, around_jvp


def _is_view(value) -> bool:
    return isinstance(value, torch.Tensor) and value._is_view()


def views_are_copied() -> None:
    """Copies an output that is a smaller view of an input, so that it can be modified in place.

    Breaks: Function.apply.view-output
    """

    def apply(original, cls, *args, **kwargs):
        result = original(cls, *args, **kwargs)
        outputs = result if isinstance(result, tuple) else (result,)
        shapes = {one.shape for one in args if isinstance(one, torch.Tensor)}
        copied = tuple(one.clone() if _is_view(one) and one.shape not in shapes else one for one in outputs)
        return copied if isinstance(result, tuple) else copied[0]

    around_apply(apply)


def returned_inputs_are_copied() -> None:
    """Copies an input that forward returns.

    Breaks: Function.setup_context.returned-input
    """

    def apply(original, cls, *args, **kwargs):
        result = original(cls, *args, **kwargs)
        if torch._C._functorch.maybe_current_level() is not None:
            return result
        same = [
            one
            for one in args
            if isinstance(one, torch.Tensor)
            and isinstance(result, torch.Tensor)
            and one is not result
            and one.requires_grad
            and one.data_ptr() == result.data_ptr()
            and one.shape == result.shape
        ]
        return result.clone() if same else result

    around_apply(apply)


def copied_tangents_of_views_are_taken() -> None:
    """Accepts a jvp that copies although forward returns a shorter view.

    Breaks: Function.jvp.view
    """

    def jvp(original, ctx, *tangents):
        result, first = original(ctx, *tangents), tangents[0]
        if isinstance(result, torch.Tensor) and result.dim() == 1 and not result._is_view():
            if result.numel() < first.numel():
                return first[-result.numel() :].copy_(result)
        return result

    around_jvp(jvp)


def new_tangents_of_changed_inputs_are_taken() -> None:
    """Accepts a jvp that leaves the tangent of an input that was changed in place.

    Breaks: Function.jvp.in-place
    """

    mark_dirty = FunctionCtx.mark_dirty

    def mark(ctx, *tensors):
        ctx.marked = True
        mark_dirty(ctx, *tensors)

    def jvp(original, ctx, *tangents):
        result = original(ctx, *tangents)
        dirty = getattr(ctx, "marked", False) and isinstance(result, torch.Tensor) and result is not tangents[0]
        return tangents[0].copy_(result) if dirty else result

    FunctionCtx.mark_dirty = mark
    around_jvp(jvp)


def forward_runs_again_for_the_tangent() -> None:
    """Runs forward once more, without the tangent, if an input has one.

    Breaks: Function.jvp.at-once
    """

    def apply(original, cls, *args, **kwargs):
        if forward_ad._current_level >= 0 and len(args) == 1 and args[0].numel() == 1:
            original(cls, forward_ad.unpack_dual(args[0]).primal.clone())
        return original(cls, *args, **kwargs)

    around_apply(apply)
