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

       A forward under ``custom_fwd`` runs in the autocast state of its caller; with ``cast_inputs`` and
       under autocast it gets floating-point tensors in that dtype, inside lists too, and runs with
       autocast off.

    .. clause:: Function.amp.custom-bwd
       :party: engine
       :level: must
       :sources: X Automatic mixed precision examples

       A backward under ``custom_bwd`` runs in the autocast state and dtype that its forward had, whatever
       its caller's are.
    """
