"""What forward and setup_context receive and must do.

Continues :mod:`spec_impl.function`.
"""

from __future__ import annotations

from typing import Any

from spec_impl.function import Function

SPEC = "Function"


class FunctionForward(Function):
    """Compute the outputs, and store what the derivatives need.

    Documentation only; do not subclass: in PyTorch these are members of
    :class:`spec_impl.function.Function`.
    """

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """Compute the outputs.

        In the combined form the first argument is ctx, and forward also stores there what backward will need.
        In the separate form forward has no ctx, and :meth:`setup_context` stores it. No graph is recorded while
        forward runs.

        Args:
            *args: ctx first in the combined form; then the inputs, tensors or anything else.
            **kwargs: Inputs passed by keyword.

        Returns:
            A tensor, anything else, or a tuple of such values.

        Raises:
            NotImplementedError: the class does not override it.

        .. clause:: Function.forward.overridden
           :party: engine
           :level: must
           :sources: K T L M "to be overridden by all subclasses"

           ``apply`` of a class that does not override forward raises NotImplementedError.

        .. clause:: Function.forward.combined
           :party: engine
           :level: must
           :sources: K T M "followed by any number of arguments", L "def forward(ctx: Any, *args: Any"

           If a class does not override setup_context, forward is called with ctx and then every argument of
           ``apply``, unchanged: any number of them, tensors or not.

        .. clause:: Function.forward.data-on-ctx
           :party: engine
           :level: must
           :sources: K T L M "can be used to store arbitrary data", T N "to pass any value from the forward"

           An attribute that forward or setup_context sets on ctx has the same value in backward and in jvp.

        .. clause:: Function.forward.no-tensor-on-ctx
           :level: should
           :sources: K T L M "Tensors should not be stored directly on"

           No attribute of ctx is a tensor or contains one, at any depth: tensors are saved with save_for_backward
           or save_for_forward. PyTorch does not enforce this.

        .. clause:: Function.forward.frees-memory
           :level: quality
           :sources: T "to prevent incorrect gradients and memory leaks", ours

           Once the outputs of a call are gone, everything that the call made is freed, without waiting for the
           garbage collector.

        .. clause:: Function.forward.deterministic
           :level: quality
           :sources: ours

           Equal inputs give equal outputs and gradients. A call leaves the grad mode, the default dtype, the random
           number generator and the default process group unchanged.

        .. clause:: Function.forward.device
           :level: must
           :sources: X CUDA semantics "as if every operation was executed synchronously",
              X CUDA semantics "to ensure proper synchronization"

           On an accelerator a call gives the same outputs and gradients as on the CPU, within rounding, in
           whichever stream it is made. A Function that copies without blocking or uses a stream of its own waits
           before it reads, and makes its caller's stream wait.

        .. clause:: Function.forward.calls-independent
           :level: must
           :sources: K T L M "retrieve tensors saved during the forward pass"

           Calls are independent: after two forwards, each of the two backwards gives the gradient of its own call.

        .. clause:: Function.forward.no-graph
           :party: engine
           :level: must
           :sources: X Extending PyTorch

           No graph is recorded while forward and setup_context run. backward records one if and only if
           ``create_graph=True`` was passed.

        Example:
            >>> import torch
            >>> from spec_impl.function import Function
            >>> class Power(Function):
            ...     @staticmethod
            ...     def forward(ctx, x, exponent):
            ...         ctx.save_for_backward(x)
            ...         ctx.exponent = exponent
            ...         return x**exponent
            >>> Power.apply(torch.tensor([2.0, 3.0]), 3)
            tensor([ 8., 27.])
        """

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> Any:
        """Store on ctx what backward and jvp will need (separate form).

        Args:
            ctx: The context of this call.
            inputs: All arguments of forward.
            output: What forward returned.

        .. clause:: Function.setup_context.separate
           :party: engine
           :level: must
           :sources: L "inputs are a Tuple of inputs to the forward",
              K L M "The forward no longer accepts a ctx argument", N "override setup_context"

           If a class overrides setup_context, forward is called without ctx. Then setup_context is called once,
           with ctx, a tuple of all inputs, and what forward returned.

        .. clause:: Function.setup_context.defaults
           :party: engine
           :level: quality
           :sources: X Extending PyTorch "some of them being optional"

           In the separate form, ``inputs`` contains the default of an omitted argument, at its place in forward's
           signature.

        .. clause:: Function.setup_context.keywords
           :party: engine
           :level: quality
           :sources: K L M "def forward(*args: Any, **kwargs: Any)"
           :versions: torch>=2.13

           In the separate form apply takes arguments by keyword, and ``inputs`` contains each at its place in
           forward's signature.

        .. clause:: Function.setup_context.returned-input
           :party: engine
           :level: quality
           :sources: ours

           If forward returns an input unchanged, ``apply`` returns another tensor over the same memory, whose
           gradient goes through backward. setup_context receives the input and that output.

        Example:
            >>> import torch
            >>> from spec_impl.function import Function
            >>> class Power(Function):
            ...     @staticmethod
            ...     def forward(x, exponent):
            ...         return x**exponent
            ...
            ...     @staticmethod
            ...     def setup_context(ctx, inputs, output):
            ...         x, ctx.exponent = inputs
            ...         ctx.save_for_backward(x)
            ...
            ...     @staticmethod
            ...     def backward(ctx, grad):
            ...         (x,) = ctx.saved_tensors
            ...         return grad * ctx.exponent * x ** (ctx.exponent - 1), None
            >>> torch.func.grad(lambda x: Power.apply(x, 3))(torch.tensor(2.0))
            tensor(12.)
        """
