"""What jvp receives and must return.

Continues :mod:`spec_impl.function`.
"""

from __future__ import annotations

from typing import Any

from spec_impl.function import Function

SPEC = "Function"


class FunctionJvp(Function):
    """Turn tangents of the inputs into tangents of the outputs.

    Documentation only; do not subclass: in PyTorch these are members of
    :class:`spec_impl.function.Function`.
    """

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        """Turn tangents of the inputs into tangents of the outputs (forward-mode differentiation).

        Args:
            ctx: The context of the call.
            *tangents: One value for each input of forward: a tensor of the input's shape and dtype for a
                tensor, None for anything else. PyTorch's own signature calls them ``*grad_inputs``.

        Returns:
            One value for each output of forward: its tangent, or None. For a single output, the value alone.

        Raises:
            NotImplementedError: the class does not override it.

        .. clause:: Function.jvp.overridden
           :party: engine
           :level: must
           :sources: T N "to be overridden by all subclasses"

           Forward-mode differentiation of a class that does not override jvp raises NotImplementedError.

        .. clause:: Function.jvp.receives
           :party: engine
           :level: must
           :sources: T N "None will be passed in for non tensor inputs"

           jvp is called with ctx and one value for each input of forward, in order: a tangent for a tensor, None
           for anything else.

        .. clause:: Function.jvp.accepts
           :level: must
           :sources: T N "followed by as many inputs as the"

           jvp can be called with ctx and one value for each input of forward.

        .. clause:: Function.jvp.count
           :level: must
           :sources: T N "as many tensors as there were outputs"

           jvp returns one value for each output of forward.

        .. clause:: Function.jvp.tangent
           :level: must
           :sources: T N "Each argument is the gradient w.r.t the given input"

           The value that jvp returns for an output is the derivative of that output in the direction of the
           tangents. It agrees with backward: both are products with the same Jacobian.

        .. clause:: Function.jvp.tangents-untouched
           :level: should
           :sources: X Extending PyTorch "must match the view/inplace behavior"

           jvp changes a tangent in place only if forward changes that input in place.

        .. clause:: Function.jvp.dtype
           :level: quality
           :sources: ours

           The tangent that jvp returns for an output has that output's dtype and device. (PyTorch casts a gradient
           to its input's dtype, but does not cast a tangent.)

        .. clause:: Function.jvp.none-allowed
           :party: engine
           :level: may
           :sources: T N "not differentiable with respect to that output"

           jvp may return None for a non-tensor output and for an output that is not differentiable.

        .. clause:: Function.jvp.at-once
           :party: engine
           :level: must
           :sources: X Extending PyTorch "will be called just after"

           jvp is called after forward and setup_context, before ``apply`` returns.

        .. clause:: Function.jvp.view
           :party: engine
           :level: quality
           :sources: X Extending PyTorch "must match the view/inplace behavior", ours

           If forward returns a view of an input, a jvp that returns anything but a view of that input's tangent
           raises an error.

        .. clause:: Function.jvp.in-place
           :party: engine
           :level: quality
           :sources: X Extending PyTorch "must match the view/inplace behavior", ours

           If forward changes an input in place, a jvp that does not change that input's tangent in place raises an
           error.

        Example:
            >>> import torch
            >>> import torch.autograd.forward_ad as fwd
            >>> from spec_impl.function import Function
            >>> class Square(Function):
            ...     @staticmethod
            ...     def forward(ctx, x):
            ...         ctx.save_for_forward(x)
            ...         return x * x
            ...
            ...     @staticmethod
            ...     def jvp(ctx, tangent):
            ...         (x,) = ctx.saved_tensors
            ...         return 2 * x * tangent
            >>> with fwd.dual_level():
            ...     y = Square.apply(fwd.make_dual(torch.tensor(3.0), torch.tensor(1.0)))
            ...     fwd.unpack_dual(y).tangent
            tensor(6.)
        """
