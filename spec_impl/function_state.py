"""The contract on tensors that a Function does not own: its caller's, saved ones, and captured ones.

Continues :mod:`spec_impl.function`.
"""

from __future__ import annotations

from spec_impl.function import Function

SPEC = "Function"


class FunctionState(Function):
    """What a Function must not change, and must not depend on. Documentation only; do not subclass.

    .. clause:: Function.save_for_backward.protects
       :level: should
       :sources: T "in-place operation that modified their content", X Autograd mechanics

       If an input or an output is changed in place after the call, backward raises an error or gives the gradient
       of the call as it was made. What it reads of them was saved with save_for_backward, or is a copy.

    .. clause:: Function.forward.inputs-untouched
       :level: should
       :sources: T "modified in-place in a call", X Extending PyTorch

       forward does not change the values of a tensor inside a list or dict argument. Neither backward nor jvp
       changes any argument.

    .. clause:: Function.forward.flags-untouched
       :level: should
       :sources: X Extending PyTorch

       After forward and backward the caller's tensors have the same ``requires_grad``, ``grad``, shape, strides,
       dtype and other attributes as before.

    .. clause:: Function.forward.captures
       :level: should
       :sources: X Extending torch.func, X Extending PyTorch

       No gradient is silently lost. A tensor that requires grad and is used in forward is itself an argument, or
       gets its gradient from backward. No tensor of the result is inside a list or dict.

    .. clause:: Function.setup_context.no-compute
       :level: quality
       :sources: X Extending PyTorch

       setup_context only stores: it computes nothing that has a derivative. It may take views and copies, and make
       masks, indices and constants.
    """
