"""What PyTorch offers to a Function under autocast: custom_fwd and custom_bwd.

Continues :mod:`spec_impl.function`.
"""

from __future__ import annotations

from spec_impl.function import Function

SPEC = "Function"


class FunctionAmp(Function):
    """A Function whose forward and backward are decorated for autocast.

    Documentation only; do not subclass.

    .. clause:: Function.amp.custom-fwd
       :party: engine
       :level: must
       :sources: X Automatic mixed precision examples

       A forward decorated with ``custom_fwd`` runs in its caller's autocast state. With ``cast_inputs`` and under
       autocast, it receives floating-point tensors in that dtype, also those inside lists, and runs with autocast
       off.

    .. clause:: Function.amp.custom-bwd
       :party: engine
       :level: must
       :sources: X Automatic mixed precision examples

       A backward decorated with ``custom_bwd`` runs in the autocast state and dtype of its forward, whatever its
       caller's are.
    """
