"""Engine bugs around mark_dirty and mark_non_differentiable."""

from __future__ import annotations

import torch
from torch.autograd.function import FunctionCtx

from tests.planted._engine import around_apply, around_backward, around_member, combined


def _after_the_methods(change) -> None:
    """Call ``change(ctx)`` after forward or setup_context."""

    def member(original, cls, ctx, *args):
        output = original(ctx, *args)
        change(ctx)
        return output

    def forward(original, cls, *args):
        is_ctx = combined(cls) and hasattr(args[0], "mark_dirty")
        return member(original, cls, *args) if is_ctx else original(*args)

    around_member("forward", forward)
    around_member("setup_context", member)


def dirty_forgotten_when_marked_first() -> None:
    """Forgets mark_dirty if it came before the change.

    Breaks: Function.mark_dirty.before-or-after
    """

    def mark_dirty(ctx, *tensors):
        ctx.dirty_tensors = tensors
        ctx.versions = [tensor._version for tensor in tensors]

    def change(ctx):
        if ctx.dirty_tensors and [tensor._version for tensor in ctx.dirty_tensors] != ctx.versions:
            ctx.dirty_tensors = None

    FunctionCtx.mark_dirty = mark_dirty
    _after_the_methods(change)


def dirty_forgotten_when_marked_last() -> None:
    """Forgets mark_dirty if it came after the change.

    Breaks: Function.mark_dirty.before-or-after
    """

    def apply(original, cls, *args, **kwargs):
        for arg in args:
            if isinstance(arg, torch.Tensor):
                arg.version_at_start = arg._version
        return original(cls, *args, **kwargs)

    def mark_dirty(ctx, *tensors):
        if all(tensor._version == getattr(tensor, "version_at_start", 0) for tensor in tensors):
            ctx.dirty_tensors = tensors

    around_apply(apply)
    FunctionCtx.mark_dirty = mark_dirty


def dirty_returned_as_another_tensor() -> None:
    """Returns a copy of an input that was changed in place.

    Breaks: Function.mark_dirty.before-or-after
    """

    def apply(original, cls, *args, **kwargs):
        output = original(cls, *args, **kwargs)
        return output.clone() if any(output is arg for arg in args) else output

    around_apply(apply)


def dirty_view_forgotten() -> None:
    """Forgets mark_dirty for views, so their base keeps its history.

    Breaks: Function.mark_dirty.before-or-after
    """

    def mark_dirty(ctx, *tensors):
        ctx.dirty_tensors = tuple(tensor for tensor in tensors if tensor._base is None)

    FunctionCtx.mark_dirty = mark_dirty


def dirty_does_not_count_as_changed() -> None:
    """Restores the version of tensors that were marked dirty.

    Breaks: Function.mark_dirty.protects
    """

    def apply(original, cls, *args, **kwargs):
        tensors = [arg for arg in args if isinstance(arg, torch.Tensor)]
        versions = [tensor._version for tensor in tensors]
        output = original(cls, *args, **kwargs)
        torch._C._autograd._unsafe_set_version_counter(tuple(tensors), tuple(versions))
        return output

    around_apply(apply)


def dirty_counts_only_what_is_seen() -> None:
    """Counts a dirty tensor as changed only if recorded operations changed it.

    Breaks: Function.mark_dirty.protects
    """

    def apply(original, cls, *args, **kwargs):
        tensors = [arg for arg in args if isinstance(arg, torch.Tensor)]
        versions = [tensor._version for tensor in tensors]
        output = original(cls, *args, **kwargs)
        after = tuple(max(old, tensor._version - 1) for old, tensor in zip(versions, tensors, strict=True))
        torch._C._autograd._unsafe_set_version_counter(tuple(tensors), after)
        return output

    around_apply(apply)


def marked_outputs_need_grad() -> None:
    """Ignores mark_non_differentiable.

    Breaks: Function.mark_non_differentiable.no-grad
    """
    FunctionCtx.mark_non_differentiable = lambda ctx, *tensors: None


def only_the_first_is_marked() -> None:
    """Marks only the first argument of mark_non_differentiable.

    Breaks: Function.mark_non_differentiable.no-grad
    """

    def mark_non_differentiable(ctx, *tensors):
        ctx.non_differentiable = tensors[:1]

    FunctionCtx.mark_non_differentiable = mark_non_differentiable


def single_output_cannot_be_marked() -> None:
    """Ignores mark_non_differentiable for a single output.

    Breaks: Function.mark_non_differentiable.no-grad
    """

    def apply(original, cls, *args, **kwargs):
        output = original(cls, *args, **kwargs)
        tensors = [arg for arg in args if isinstance(arg, torch.Tensor)]
        needed = any(tensor.requires_grad for tensor in tensors)
        alone = len(tensors) == 2 == len(args) and isinstance(output, torch.Tensor)
        return output.requires_grad_() if alone and needed else output

    around_apply(apply)


def _for_marked(replace) -> None:
    """Replace what backward receives for marked outputs, recognized by being zero."""

    def mark_non_differentiable(ctx, *tensors):
        ctx.non_differentiable = tensors
        ctx.any_marked = bool(tensors)

    def backward(original, ctx, *grads):
        if getattr(ctx, "any_marked", False):
            grads = [one if one is None or one.any() else replace(one) for one in grads]
        return original(ctx, *[one for one in grads if one is not Ellipsis])

    FunctionCtx.mark_non_differentiable = mark_non_differentiable
    around_backward(backward)


def none_for_marked_outputs() -> None:
    """Passes None to backward for a marked output.

    Breaks: Function.mark_non_differentiable.zero-gradient
    """
    _for_marked(lambda zeros: None)


def marked_outputs_left_out() -> None:
    """Omits the gradient of a marked output when backward is called.

    Breaks: Function.mark_non_differentiable.zero-gradient
    """
    _for_marked(lambda zeros: ...)


def ones_for_marked_outputs() -> None:
    """Passes ones to backward for a marked output.

    Breaks: Function.mark_non_differentiable.zero-gradient
    """
    _for_marked(torch.ones_like)


def a_number_for_marked_outputs() -> None:
    """Passes a zero-dimensional zero to backward for a marked output.

    Breaks: Function.mark_non_differentiable.zero-gradient
    """
    _for_marked(lambda zeros: zeros.sum())
