"""What forward and setup_context receive and must do.

Continues :mod:`spec_impl.function`.
"""

from __future__ import annotations

from typing import Any

from spec_impl.function import Function

SPEC = "Function"


class FunctionForward(Function):
    """Compute the outputs, and keep what the derivatives need.

    Documentation only; do not subclass: in PyTorch these are members of
    :class:`spec_impl.function.Function`.
    """

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """Compute the outputs.

        In the combined form the first argument is ctx, and forward also stores there what backward will need.
        In the separate form there is no ctx here, and :meth:`setup_context` stores it. Gradients are not
        recorded while forward runs.

        Args:
            *args: ctx first in the combined form; then the inputs, tensors or anything else.
            **kwargs: Inputs given by name.

        Returns:
            A tensor, anything else, or a tuple of such values.

        Raises:
            NotImplementedError: the class does not override it.

        .. clause:: Function.forward.overridden
           :party: engine
           :level: must
           :sources: K T L M "to be overridden by all subclasses"

           ``apply`` of a class without a forward of its own raises NotImplementedError.

        .. clause:: Function.forward.combined
           :party: engine
           :level: must
           :sources: K T M "followed by any number of arguments", L "def forward(ctx: Any, *args: Any"

           A class that leaves setup_context alone has its forward called with ctx, then with every argument
           of ``apply`` as it was given: any number of them, tensors or not.

        .. clause:: Function.forward.data-on-ctx
           :party: engine
           :level: must
           :sources: K T L M "can be used to store arbitrary data", T N "to pass any value from the forward"

           An attribute set on ctx while the outputs are computed has the same value in backward and in jvp.

        .. clause:: Function.forward.no-tensor-on-ctx
           :level: should
           :sources: K T L M "Tensors should not be stored directly on"

           No attribute of ctx is a tensor or holds one, however deep in a container: tensors are saved with
           save_for_backward or save_for_forward. PyTorch does not enforce it.

        .. clause:: Function.forward.frees-memory
           :level: quality
           :sources: T "to prevent incorrect gradients and memory leaks", ours

           When the outputs of a call are gone, everything the call made is gone too, without waiting for the
           garbage collector.

        .. clause:: Function.forward.deterministic
           :level: quality
           :sources: ours

           Equal inputs give equal outputs and gradients, and a call leaves the grad mode, the default dtype,
           the random number generator and the default process group as it found them.

        .. clause:: Function.forward.device
           :level: must
           :sources: X CUDA semantics "as if every operation was executed synchronously",
              X CUDA semantics "to ensure proper synchronization"

           On an accelerator a call gives the outputs and gradients that it gives on the CPU, within rounding, in
           whatever stream it is made: a Function that copies without blocking or uses a stream of its own waits
           before it reads, and lets its caller's stream wait.

        .. clause:: Function.forward.calls-independent
           :level: must
           :sources: K T L M "retrieve tensors saved during the forward pass"

           Calls know nothing of one another: after two forwards, each of the two backwards gives the gradient
           of its own call.

        .. clause:: Function.forward.no-graph
           :party: engine
           :level: must
           :sources: X Extending PyTorch

           Nothing is recorded while forward and setup_context run; backward records what it computes exactly
           where ``create_graph=True`` was asked.

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

           A class that overrides setup_context has its forward called without ctx; afterwards setup_context
           is called once with ctx, a tuple of all inputs, and what forward returned.

        .. clause:: Function.setup_context.defaults
           :party: engine
           :level: quality
           :sources: X Extending PyTorch "some of them being optional"

           In the separate form an argument that is left at its default stands in ``inputs`` where forward's
           signature has it.

        .. clause:: Function.setup_context.keywords
           :party: engine
           :level: quality
           :sources: K L M "def forward(*args: Any, **kwargs: Any)"
           :versions: torch>=2.13

           In the separate form apply takes arguments by name, and each of them stands in ``inputs`` where
           forward's signature has it.

        .. clause:: Function.setup_context.returned-input
           :party: engine
           :level: quality
           :sources: ours

           An input that forward returns as it is comes out of ``apply`` as another tensor over the same
           memory, whose gradient goes through backward; setup_context is handed the input and that output.

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
