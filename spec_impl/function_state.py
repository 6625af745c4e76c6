"""The contract on tensors that a Function does not own: its caller's, those it saved, those it finds elsewhere.

Continues :mod:`spec_impl.function`.
"""

from __future__ import annotations

from spec_impl.function import Function

SPEC = "Function"


class FunctionState(Function):
    """What a Function must leave alone, and what it may not depend on. Documentation only; do not subclass.

    .. clause:: Function.save_for_backward.protects
       :level: should
       :sources: T "in-place operation that modified their content", X Autograd mechanics

       After an input or an output was changed in place, backward raises or gives the gradient of the call as it was
       made: what backward reads of them went through save_for_backward, or is a copy.

    .. clause:: Function.forward.inputs-untouched
       :level: should
       :sources: T "modified in-place in a call", X Extending PyTorch

       A tensor inside a list or dict argument holds the same values after forward as before, and neither backward nor
       jvp changes any argument.

    .. clause:: Function.forward.flags-untouched
       :level: should
       :sources: X Extending PyTorch

       After forward and backward the caller's tensors have the ``requires_grad``, ``grad``, shape, strides, dtype and
       other attributes that they had before.

    .. clause:: Function.forward.captures
       :level: should
       :sources: X Extending torch.func, X Extending PyTorch

       No gradient is lost unseen: forward computes with no tensor that requires grad unless it is an argument itself,
       or backward gives that tensor its gradient; and no tensor of the result is inside a list or dict.

    .. clause:: Function.setup_context.no-compute
       :level: quality
       :sources: X Extending PyTorch

       setup_context keeps things and computes nothing that has a derivative: it may take views and copies, and make
       masks, indices and constants.
    """
