"""How tensors are kept for the derivatives: save_for_backward and save_for_forward.

Continues :mod:`spec_impl.function`.
"""

from __future__ import annotations

import torch

from spec_impl.function import Function

SPEC = "Function"


class FunctionSaving(Function):
    """Save tensors for backward and jvp.

    Documentation only; do not subclass: in PyTorch these are members of
    :class:`spec_impl.function.Function`.
    """

    def save_for_backward(self, *tensors: torch.Tensor | None) -> None:
        """Save tensors for :meth:`Function.backward` (a method of ctx).

        Args:
            *tensors: Inputs, outputs or intermediate tensors; None keeps its place.

        .. clause:: Function.save_for_backward.once
           :level: should
           :sources: T "should be called at most once"

           In one call, forward and setup_context together call save_for_backward at most once.

        .. clause:: Function.save_for_backward.where
           :level: should
           :sources: T "only from inside the"

           save_for_backward is called only from forward or setup_context.

        .. clause:: Function.save_for_backward.only-tensors
           :level: must
           :sources: T "and only with tensors"

           Every argument of save_for_backward is a tensor or None.

        .. clause:: Function.save_for_backward.none
           :party: engine
           :level: may
           :sources: T "Arguments can also be None"

           None may be saved; it comes back as None at its place.

        .. clause:: Function.save_for_backward.in-place-check
           :party: engine
           :level: must
           :sources: T "in any in-place operation that modified their content"

           If a saved tensor was changed in place after it was saved, reading ``ctx.saved_tensors`` raises an error.

        .. clause:: Function.save_for_backward.no-leak
           :party: engine
           :level: must
           :sources: T "to prevent incorrect gradients and memory leaks"

           Saving an input, an output or an intermediate tensor makes no reference cycle. What was saved is freed
           once the results are gone, or after a backward pass that does not retain the graph.

        .. clause:: Function.save_for_backward.hooks
           :party: engine
           :level: must
           :sources: T "enable the application of saved tensor hooks"

           Under ``torch.autograd.graph.saved_tensors_hooks``, pack is called with every saved tensor, and backward
           receives what unpack returns.

        .. clause:: Function.save_for_backward.hooks-suffice
           :level: should
           :sources: T "should be saved with save_for_backward"

           Gradients are right if saved-tensor hooks replace every saved tensor with a copy: backward reads nothing
           that was kept in another way.

        .. clause:: Function.save_for_backward.refused
           :party: engine
           :level: must
           :sources: T "and only with tensors"

           save_for_backward of a value that is neither a tensor nor None raises an error before ``apply`` returns.

        .. clause:: Function.save_for_backward.hooks-innermost
           :party: engine
           :level: must
           :sources: X Autograd mechanics

           If saved-tensor hooks are nested, only the innermost pair is used. unpack is called every time
           ``ctx.saved_tensors`` is read, once for each tensor.

        .. clause:: Function.save_for_backward.hooks-refused
           :party: engine
           :level: must
           :sources: X Autograd mechanics

           A pack hook that changes its tensor in place raises an error. So does saving a tensor under hooks inside
           ``disable_saved_tensors_hooks``.

        Example:
            >>> import torch
            >>> from spec_impl.function import Function
            >>> class Blend(Function):
            ...     @staticmethod
            ...     def forward(ctx, x, y, factor):
            ...         product = x * y
            ...         result = (factor * product).exp()
            ...         ctx.save_for_backward(x, y, product, result)  # inputs, an intermediate tensor, the output
            ...         ctx.factor = factor  # no tensor: an attribute
            ...         return result
            ...
            ...     @staticmethod
            ...     def backward(ctx, grad):
            ...         x, y, product, result = ctx.saved_tensors
            ...         grad_product = grad * ctx.factor * result
            ...         return grad_product * y, grad_product * x, None
            >>> x, y = (torch.tensor(value, requires_grad=True) for value in (0.0, 3.0))
            >>> Blend.apply(x, y, 2).backward()
            >>> x.grad, y.grad
            (tensor(6.), tensor(0.))
        """

    def save_for_forward(self, *tensors: torch.Tensor | None) -> None:
        """Save tensors for :meth:`Function.jvp` (a method of ctx).

        Args:
            *tensors: As for :meth:`save_for_backward`.

        .. clause:: Function.save_for_forward.once
           :level: should
           :sources: T "should be only called once", N "should be called at most once"

           In one call, forward and setup_context together call save_for_forward at most once.

        .. clause:: Function.save_for_forward.where
           :level: should
           :sources: T "only called once, from inside the", N "in either the setup_context() or forward() methods"

           save_for_forward is called only from forward or setup_context.

        .. clause:: Function.save_for_forward.only-tensors
           :party: engine
           :level: must
           :sources: T "only be called with tensors", N "all arguments should be tensors"

           save_for_forward of a value that is neither a tensor nor None raises an error.

        .. clause:: Function.save_for_forward.none
           :party: engine
           :level: may
           :sources: T N "Arguments can also be None"

           None may be saved for jvp; it comes back as None at its place.

        .. clause:: Function.save_for_forward.saved-tensors
           :party: engine
           :level: must
           :sources: T N "saved objects can be accessed through"

           In jvp, ``ctx.saved_tensors`` holds the arguments of save_for_forward, in the same order.

        Example:
            >>> import torch
            >>> import torch.autograd.forward_ad as fwd
            >>> from spec_impl.function import Function
            >>> class Product(Function):
            ...     @staticmethod
            ...     def forward(ctx, x, y, factor):
            ...         ctx.save_for_backward(x, y)  # for vjp
            ...         ctx.save_for_forward(x, y)  # for jvp
            ...         ctx.factor = factor
            ...         return factor * x * y
            ...
            ...     @staticmethod
            ...     def jvp(ctx, x_tangent, y_tangent, _):
            ...         x, y = ctx.saved_tensors
            ...         return ctx.factor * (y * x_tangent + x * y_tangent)
            ...
            ...     @staticmethod
            ...     def vjp(ctx, grad):
            ...         x, y = ctx.saved_tensors
            ...         return ctx.factor * grad * y, ctx.factor * grad * x, None
            >>> x, y = (torch.tensor(value, requires_grad=True) for value in (1.0, 2.0))
            >>> with fwd.dual_level():
            ...     result = Product.apply(fwd.make_dual(x, torch.tensor(1.0)), y, 4)
            ...     fwd.unpack_dual(result).tangent
            tensor(8., grad_fn=<...>)
            >>> Product.apply(x, y, 4).backward()
            >>> x.grad, y.grad
            (tensor(8.), tensor(4.))
        """
