"""Engine bugs around backward and vjp."""

from __future__ import annotations

import torch
from torch.autograd.function import Function, _SingleLevelFunction

from tests.planted._engine import around_backward, around_member


def _derivative(ctx):
    cls = ctx._forward_cls
    return cls.vjp if cls.vjp is not Function.vjp else cls.backward


def _as_needed(ctx):
    """Return as many Nones as backward must return."""
    return (None,) * len(ctx.needs_input_grad)


def missing_backward_gives_no_gradient() -> None:
    """Returns None from a class with neither backward nor vjp.

    Breaks: Function.backward.overridden
    """

    def backward(original, ctx, *grads):
        missing = _derivative(ctx) is Function.backward
        return _as_needed(ctx) if missing else original(ctx, *grads)

    around_backward(backward)


def missing_backward_raises_runtime_error() -> None:
    """Raises RuntimeError for a class with neither backward nor vjp, instead of its subclass NotImplementedError.

    Breaks: Function.backward.overridden
    """

    def backward(original, ctx, *grads):
        if _derivative(ctx) is Function.backward:
            raise RuntimeError("no backward")
        return original(ctx, *grads)

    around_backward(backward)


def missing_backward_checked_in_apply() -> None:
    """Raises TypeError under torch.func.grad for a class with neither backward nor vjp.

    Breaks: Function.backward.overridden
    """

    def backward(ctx, *grads):
        if "Generated" in type(ctx).__name__:
            raise TypeError("no backward")
        raise NotImplementedError("no backward")

    _SingleLevelFunction.backward = _SingleLevelFunction.vjp = staticmethod(backward)


def vjp_is_ignored() -> None:
    """Ignores vjp: a class that defines it instead of backward has no gradients.

    Breaks: Function.backward.vjp-alias
    """

    def backward(original, ctx, *grads):
        cls = ctx._forward_cls
        return _as_needed(ctx) if cls.backward is Function.backward is not cls.vjp else original(ctx, *grads)

    around_backward(backward)


def vjp_gets_tensor_gradients_alone() -> None:
    """Omits None for outputs that are not tensors when vjp is called.

    Breaks: Function.backward.vjp-alias
    """

    def backward(original, ctx, *grads):
        only = [grad for grad in grads if grad is not None]
        return original(ctx, *(only if ctx._forward_cls.vjp is not Function.vjp else grads))

    around_backward(backward)


def vjp_and_backward_are_accepted() -> None:
    """Uses backward if a class defines both backward and vjp, instead of raising.

    Breaks: Function.backward.vjp-alias
    """

    def backward(original, ctx, *grads):
        cls = ctx._forward_cls
        both = cls.vjp is not Function.vjp and cls.backward is not Function.backward
        return cls.backward(ctx, *grads) if both else original(ctx, *grads)

    around_backward(backward)


def gradients_reversed() -> None:
    """Reverses the gradients of more than four outputs.

    Breaks: Function.backward.receives
    """
    around_backward(lambda original, ctx, *grads: original(ctx, *(grads[::-1] if len(grads) > 4 else grads)))


def zero_dimensional_gradient_reshaped() -> None:
    """Passes a zero-dimensional gradient with one dimension.

    Breaks: Function.backward.receives
    """

    def backward(original, ctx, *grads):
        changed = [
            grad.reshape(1) if grad is not None and grad.dim() == 0 and len(grads) > 4 else grad for grad in grads
        ]
        return original(ctx, *changed)

    around_backward(backward)


def nothing_for_a_string() -> None:
    """Omits None for outputs that are not tensors when backward is called.

    Breaks: Function.backward.receives
    """

    def backward(original, ctx, *grads):
        only = [grad for grad in grads if grad is not None]
        return original(ctx, *(only if len(grads) > 4 else grads))

    around_backward(backward)


def zeros_for_what_is_no_tensor() -> None:
    """Passes a zero to backward for an output that is not a tensor.

    Breaks: Function.backward.receives
    """

    def backward(original, ctx, *grads):
        changed = [torch.zeros(()) if grad is None else grad for grad in grads]
        return original(ctx, *(changed if len(grads) > 4 else grads))

    around_backward(backward)


def backward_called_twice() -> None:
    """Calls backward twice if there are more than four outputs.

    Breaks: Function.backward.receives
    """

    def backward(original, ctx, *grads):
        if len(grads) > 4:
            original(ctx, *grads)
        return original(ctx, *grads)

    around_backward(backward)


def gradient_doubled() -> None:
    """Doubles the gradient of a single output with two dimensions.

    Breaks: Function.backward.receives
    """

    def backward(original, ctx, *grads):
        single = len(grads) == 1 and grads[0] is not None and grads[0].dim() == 2
        return original(ctx, 2 * grads[0]) if single else original(ctx, *grads)

    around_backward(backward)


def none_is_refused() -> None:
    """Refuses None as the first of two gradients if that input is a tensor.

    Breaks: Function.backward.none-allowed
    """

    def forward(original, cls, *args):
        ctx = next((arg for arg in args if hasattr(arg, "needs_input_grad")), None)
        if ctx is not None:
            ctx.kinds_of = [isinstance(arg, torch.Tensor) for arg in args[1:]]
        return original(*args)

    def backward(original, ctx, *grads):
        result = original(ctx, *grads)
        several = result if isinstance(result, tuple) else (result,)
        for one, tensor in zip(several, vars(ctx).get("kinds_of", ()), strict=False):
            if tensor and one is None and one is several[0] and len(several) == 2:
                raise RuntimeError("None for a tensor")
        return result

    around_member("forward", forward)
    around_backward(backward)


def none_shifts_the_others() -> None:
    """Swaps two gradients if the first is None.

    Breaks: Function.backward.none-allowed
    """

    def backward(original, ctx, *grads):
        result = original(ctx, *grads)
        swapped = isinstance(result, tuple) and len(result) == 2 and result[0] is None
        return result[::-1] if swapped else result

    around_backward(backward)


def once_differentiable_does_nothing() -> None:
    """Ignores once_differentiable.

    Breaks: Function.backward.once-differentiable
    """
    torch.autograd.function.once_differentiable = lambda backward: backward


def once_differentiable_cuts_silently() -> None:
    """Turns the gradient under once_differentiable into a constant: no error, and wrong second derivatives.

    Breaks: Function.backward.once-differentiable
    """

    def once_differentiable(backward):
        def without_graph(ctx, *grads):
            with torch.no_grad():
                return backward(ctx, *grads)

        return without_graph

    torch.autograd.function.once_differentiable = once_differentiable


def once_differentiable_gives_zeros() -> None:
    """Returns zeros from a backward under once_differentiable if it is to be differentiated.

    Breaks: Function.backward.once-differentiable
    """
    original = torch.autograd.function.once_differentiable

    def once_differentiable(backward):
        right = original(backward)

        def zeroed(ctx, *grads):
            result = right(ctx, *grads)
            factor = 0 if torch.is_grad_enabled() else 1
            return tuple(one if one is None else one * factor for one in result)

        return zeroed

    torch.autograd.function.once_differentiable = once_differentiable
