"""The contract in other ways to run a Function: without gradients, in another thread, under checkpoint and autocast.

Continues :mod:`spec_impl.function`.
"""

from __future__ import annotations

from spec_impl.function import Function

SPEC = "Function"


class FunctionModes(Function):
    """What stays the same, however a Function is run. Documentation only; do not subclass.

    If a way of running is unsupported by design, an error is right. Different numbers never are.

    .. clause:: Function.backward.undefined
       :level: must
       :sources: T N "undefined", X Extending PyTorch

       If gradients are not materialized, backward accepts None for every output at once, and returns None or zeros.

    .. clause:: Function.backward.zero
       :level: quality
       :sources: ours

       Incoming gradients of zeros give zeros, wherever other incoming gradients give finite numbers.

    .. clause:: Function.backward.create-graph
       :level: quality
       :sources: X Extending PyTorch, ours

       With ``create_graph=True`` the gradient is the same as without, or an error is raised.

    .. clause:: Function.backward.dtype
       :level: quality
       :sources: X Extending PyTorch, ours

       The value that backward returns for an input has that input's dtype and device, before autograd casts it.

    .. clause:: Function.backward.any-thread
       :level: quality
       :sources: X Autograd mechanics

       backward gives the same gradient in another thread than forward's. (On accelerators it always runs in another
       one.)

    .. clause:: Function.forward.same-without-grad
       :level: quality
       :sources: X Autograd mechanics

       The result is the same in grad mode, under ``torch.no_grad`` and under ``torch.inference_mode``. Under the
       last two it has no graph.

    .. clause:: Function.checkpoint.agrees
       :level: quality
       :sources: X torch.utils.checkpoint

       Under :func:`torch.utils.checkpoint.checkpoint`, reentrant or not, gradients are the same as without, or an
       error is raised.

    .. clause:: Function.autocast.backward
       :level: quality
       :sources: X Automatic mixed precision examples

       With forward under autocast, gradients agree with those in single precision as closely as the lower precision
       allows, or an error is raised.

    .. clause:: Function.func.grad
       :level: quality
       :sources: X Extending torch.func

       In the separate form, :func:`torch.func.grad`, :func:`torch.func.vjp` and ``torch.func.jacrev`` give the same
       gradients as autograd, or an error is raised.

    .. clause:: Function.backward.mixed-modes
       :level: quality
       :sources: X Extending PyTorch "must be backward differentiable", X Extending torch.func, ours

       The gradient of a tangent is right, and so is the tangent of a gradient, as in a Hessian, or computing it
       raises an error. It is never silently wrong.

    .. clause:: Function.forward.meta
       :level: quality
       :sources: ours

       With tensors on the meta device, forward returns results of the same shapes, dtypes and strides as on a real
       one, or raises an error. Results that have a gradient are on the meta device too.

    .. clause:: Function.compile.agrees
       :level: quality
       :sources: X torch.compile, ours

       Under ``torch.compile`` results and gradients are those of eager mode, also for a second shape, or an error
       is raised. Code that cannot be compiled may fall back to eager mode; it never gives other numbers.

    .. clause:: Function.compile.fullgraph
       :level: may
       :sources: X torch.compile, ours

       With ``fullgraph=True`` forward and backward are captured as a whole. If they are not, the report says at
       which line and why.

    .. clause:: Function.compile.methods
       :party: engine
       :level: quality
       :sources: X torch.compile, ours

       In compiled code the result and the gradient are those of the class's own forward and backward. This holds
       with a jvp that is not used, with one tensor passed twice, and for a tensor that is changed in place.

    .. clause:: Function.compile.transforms
       :party: engine
       :level: quality
       :sources: X torch.compile, X Extending torch.func "to support compositions of transforms", ours

       Second derivatives, forward mode and transforms of torch.func, around compiled code or inside it, use the
       class's own backward, jvp and vmap, or raise an error.
    """
