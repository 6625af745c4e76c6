"""What forward tells autograd about its inputs and outputs: mark_dirty and the other methods of ctx.

Continues :mod:`spec_impl.function`.
"""

from __future__ import annotations

import torch

from spec_impl.function import Function

SPEC = "Function"


class FunctionMarking(Function):
    """Tell autograd what it cannot see by itself.

    Documentation only; do not subclass: in PyTorch these are members of
    :class:`spec_impl.function.Function`.
    """

    def mark_dirty(self, *args: torch.Tensor) -> None:
        """Mark the inputs that forward changes in place (a method of ctx).

        Without the mark autograd does not notice the change. An operation that needs the old value then uses the new
        one, and its gradient is wrong, without an error. The example shows both.

        Args:
            *args: Inputs of forward; each is also returned.

        .. clause:: Function.mark_dirty.once
           :level: should
           :sources: T "should be called at most once, only from inside"

           In one call, forward and setup_context together call mark_dirty at most once, and nothing else calls it.

        .. clause:: Function.mark_dirty.only-inputs
           :level: must
           :sources: T "all arguments should be inputs"

           Every argument of mark_dirty is an input of forward, and forward returns it.

        .. clause:: Function.mark_dirty.complete
           :level: must
           :sources: T "should be given to this function"

           Every input that forward changes in place is passed to mark_dirty.

        .. clause:: Function.mark_dirty.before-or-after
           :party: engine
           :level: must
           :sources: T "is called before or after modification"

           Marking an input before or after it is changed gives the same results and gradients.

        .. clause:: Function.mark_dirty.protects
           :party: engine
           :level: must
           :sources: T "has been modified by an inplace operation"

           If an earlier operation needs the overwritten value for its gradient, its backward raises an error
           instead of using the new value.

        Example:
            >>> import torch
            >>> from spec_impl.function import Function
            >>> class AddOne(Function):
            ...     @staticmethod
            ...     def forward(ctx, x):
            ...         ctx.mark_dirty(x)
            ...         return x.add_(1)
            ...
            ...     @staticmethod
            ...     def backward(ctx, grad):
            ...         return grad
            >>> a = torch.ones(1, requires_grad=True).clone()
            >>> square = a * a  # its gradient needs the value of a
            >>> AddOne.apply(a) is a
            True
            >>> square.backward()
            Traceback (most recent call last):
            RuntimeError: one of the variables needed for gradient computation has been modified by an inplace ...
            >>> class Unmarked(AddOne):
            ...     @staticmethod
            ...     def forward(ctx, x):
            ...         return x.data.add_(1)
            >>> x = torch.ones(1, requires_grad=True)
            >>> a = x.clone()
            >>> square = a * a
            >>> _ = Unmarked.apply(a)
            >>> square.backward()
            >>> x.grad  # wrong: it is 2
            tensor([4.])
        """

    def mark_non_differentiable(self, *args: torch.Tensor) -> None:
        """Mark the outputs that have no derivative (a method of ctx).

        A marked output does not require grad, so autograd records nothing for results computed from it.

        Args:
            *args: Tensors that forward returns.

        .. clause:: Function.mark_non_differentiable.once
           :level: should
           :sources: T "should be called at most once, only from inside"

           In one call, forward and setup_context together call mark_non_differentiable at most once, and nothing
           else calls it.

        .. clause:: Function.mark_non_differentiable.only-outputs
           :level: must
           :sources: T "all arguments should be tensor outputs"

           Every argument of mark_non_differentiable is a tensor that forward returns.

        .. clause:: Function.mark_non_differentiable.no-grad
           :party: engine
           :level: must
           :sources: T "will mark outputs as not requiring gradients"

           A marked output does not require grad, even if inputs do.

        .. clause:: Function.mark_non_differentiable.zero-gradient
           :party: engine
           :level: must
           :sources: T "always going to be a zero tensor"

           backward still receives a gradient for a marked output: zeros of that output's shape.

        .. clause:: Function.mark_non_differentiable.integers
           :party: engine
           :level: must
           :sources: X Extending PyTorch "are never marked as requiring gradients"

           An output of integer or bool dtype does not require grad, marked or not. The other outputs do.

        Example:
            >>> import torch
            >>> from spec_impl.function import Function
            >>> class Sort(Function):
            ...     @staticmethod
            ...     def forward(ctx, x):
            ...         values, order = x.sort()
            ...         ctx.mark_non_differentiable(order)
            ...         ctx.save_for_backward(order)
            ...         return values, order
            ...
            ...     @staticmethod
            ...     def backward(ctx, grad, zeros):
            ...         (order,) = ctx.saved_tensors
            ...         return torch.zeros_like(grad).index_add(0, order, grad)
            >>> values, order = Sort.apply(torch.tensor([3.0, 1.0], requires_grad=True))
            >>> values.requires_grad, order.requires_grad
            (True, False)
        """

    def set_materialize_grads(self, value: bool) -> None:
        """Choose whether missing gradients arrive as zeros or None (a method of ctx).

        Args:
            value: True for zeros, which is the default.

        .. clause:: Function.set_materialize_grads.default
           :party: engine
           :level: must
           :sources: T N "Default is True"

           A class that never calls set_materialize_grads is treated as if it had called it with True.

        .. clause:: Function.set_materialize_grads.where
           :level: should
           :sources: T "should be called only from inside the", N "should be called only from either the"

           set_materialize_grads is called only from forward or setup_context.

        .. clause:: Function.set_materialize_grads.zeros
           :party: engine
           :level: must
           :sources: T "will be expanded to tensors full of zeros",
              N "prior to calling the backward() and jvp() methods"

           With True, backward receives zeros of the output's shape for an output that no loss used. jvp receives
           zeros of the input's shape for an input that has no tangent.

        .. clause:: Function.set_materialize_grads.none
           :party: engine
           :level: must
           :sources: T N "We must check for None now"

           With False, backward receives None for an output that no loss used, and jvp receives None for an input
           that has no tangent.

        Example:
            >>> import torch
            >>> from spec_impl.function import Function
            >>> class Twins(Function):  # True, which is the default: a missing gradient is a tensor of zeros
            ...     @staticmethod
            ...     def forward(ctx, x):
            ...         return x.clone(), x.clone()
            ...
            ...     @staticmethod
            ...     def backward(ctx, first, second):
            ...         return first + second
            >>> class LazyTwins(Function):  # False: a missing gradient is None, and nothing is added to it
            ...     @staticmethod
            ...     def forward(ctx, x):
            ...         ctx.set_materialize_grads(False)
            ...         return x.clone(), x.clone()
            ...
            ...     @staticmethod
            ...     def backward(ctx, first, second):
            ...         given = [grad for grad in (first, second) if grad is not None]
            ...         return sum(given) if given else None
            >>> for twins in (Twins, LazyTwins):
            ...     x = torch.ones(1, requires_grad=True)
            ...     twins.apply(x)[0].backward()
            ...     print(x.grad)
            tensor([1.])
            tensor([1.])
        """
