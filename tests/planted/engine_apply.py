"""Engine bugs around what apply returns and what stays on ctx."""

from __future__ import annotations

import torch
from torch.utils import _pytree as pytree

from tests.planted._engine import around_apply, around_backward, around_jvp, around_member, combined, on_ctx


def ctx_empty_in_backward() -> None:
    """Clears the attributes of ctx before backward.

    Breaks: Function.forward.data-on-ctx
    """

    def backward(original, ctx, *grads):
        vars(ctx).clear()
        return original(ctx, *grads)

    around_backward(backward)


def ctx_empty_in_jvp() -> None:
    """Clears the attributes of ctx before jvp.

    Breaks: Function.forward.data-on-ctx
    """

    def jvp(original, ctx, *tangents):
        vars(ctx).clear()
        return original(ctx, *tangents)

    around_jvp(jvp)


def ctx_shared_by_calls() -> None:
    """Shares the attributes of ctx among all calls of a class.

    Breaks: Function.forward.data-on-ctx
    """

    def setup(original, cls, ctx, *args):
        output = original(ctx, *args)
        if hasattr(ctx, "save_for_backward"):
            cls.latest = dict(vars(ctx))
        return output

    def backward(original, ctx, *grads):
        vars(ctx).update(ctx._forward_cls.latest)
        return original(ctx, *grads)

    around_member("setup_context", setup)
    around_member("forward", lambda original, cls, *args: (setup if combined(cls) else _plain)(original, cls, *args))
    around_backward(backward)


def _plain(original, cls, *args):
    return original(*args)


def one_tuple_unwrapped() -> None:
    """Unwraps a tuple of one that forward returned.

    Breaks: Function.apply.returns
    """

    def apply(original, cls, *args, **kwargs):
        output = original(cls, *args, **kwargs)
        return output[0] if isinstance(output, tuple) and len(output) == 1 else output

    around_apply(apply)


def value_in_a_tuple() -> None:
    """Wraps a value that forward returned, and that is not a tensor, in a tuple of one.

    Breaks: Function.apply.returns
    """

    def apply(original, cls, *args, **kwargs):
        output = original(cls, *args, **kwargs)
        return output if isinstance(output, torch.Tensor | tuple) else (output,)

    around_apply(apply)


def none_left_out() -> None:
    """Drops None from a tuple that forward returned.

    Breaks: Function.apply.returns
    """

    def apply(original, cls, *args, **kwargs):
        output = original(cls, *args, **kwargs)
        return tuple(one for one in output if one is not None) if isinstance(output, tuple) else output

    around_apply(apply)


def lists_handed_out_as_tuples() -> None:
    """Converts a list that forward returned to a tuple.

    Breaks: Function.apply.returns
    """

    def apply(original, cls, *args, **kwargs):
        output = original(cls, *args, **kwargs)
        return tuple(output) if isinstance(output, list) else output

    around_apply(apply)


def container_requires_grad() -> None:
    """Makes a result require grad if an argument is a container with a tensor that does.

    Breaks: Function.apply.direct-arguments
    """

    def apply(original, cls, *args, **kwargs):
        result = original(cls, *args, **kwargs)
        found = [leaf for leaf in pytree.tree_leaves(args) if isinstance(leaf, torch.Tensor)]
        inside = any(leaf.requires_grad for leaf in found if all(leaf is not arg for arg in args))
        if inside and isinstance(result, torch.Tensor) and result.is_leaf and result.is_floating_point():
            result.requires_grad_()
        return result

    around_apply(apply)


def container_needs_a_gradient() -> None:
    """Sets needs_input_grad to True for a container.

    Breaks: Function.apply.direct-arguments
    """
    containers: dict[type, list[bool]] = {}

    def apply(original, cls, *args, **kwargs):
        containers[cls] = [isinstance(value, list | tuple | dict) for value in (*args, *kwargs.values())]
        return original(cls, *args, **kwargs)

    def needed(ctx, value):
        return tuple(one or more for one, more in zip(value, containers[ctx._forward_cls], strict=False))

    around_apply(apply)
    on_ctx("needs_input_grad", needed)
