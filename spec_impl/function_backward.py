"""What backward receives and must return; vjp is another name for it.

Continues :mod:`spec_impl.function`.
"""

from __future__ import annotations

from typing import Any

from spec_impl.function import Function

SPEC = "Function"


class FunctionBackward(Function):
    """Turn gradients of the outputs into gradients of the inputs.

    Documentation only; do not subclass: in PyTorch these are members of
    :class:`spec_impl.function.Function`.
    """

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        """Turn gradients of the outputs into gradients of the inputs.

        Args:
            ctx: The context of the call.
            *grads: One value for each output of forward: a tensor of the output's shape and dtype for a
                tensor, None for anything else. PyTorch's own signature calls them ``*grad_outputs``.

        Returns:
            One value for each input of forward: its gradient, or None. For a single input, the value alone.

        Raises:
            NotImplementedError: the class overrides neither backward nor :meth:`vjp`.

        .. clause:: Function.backward.overridden
           :party: engine
           :level: must
           :sources: K T L M N "to be overridden by all subclasses"

           Differentiating the result of a class that overrides neither backward nor vjp raises NotImplementedError.

        .. clause:: Function.backward.vjp-alias
           :party: engine
           :level: must
           :sources: K L M N "Defining this function is equivalent to defining", T "alias to the vjp function"

           If a class overrides vjp but not backward, vjp is called as if it were backward. If it overrides both,
           differentiating its result raises an error.

        .. clause:: Function.backward.receives
           :party: engine
           :level: must
           :sources: K T L M N "None will be passed in for non tensor outputs"

           backward is called with ctx and one value for each output of forward, in order: a gradient for a tensor,
           None for anything else.

        .. clause:: Function.backward.accepts
           :level: must
           :sources: K T L M N "It must accept a context"

           backward can be called with ctx and one value for each output of forward.

        .. clause:: Function.backward.count
           :level: must
           :sources: K T L M N "as many tensors, as there were inputs"

           backward returns one value for each input of forward.

        .. clause:: Function.backward.gradient
           :level: must
           :sources: K T L M N "each returned value should be the gradient"

           The value that backward returns for an input is the gradient with respect to that input.

        .. clause:: Function.backward.exact
           :level: quality
           :sources: ours

           The gradient is the derivative as closely as its dtype allows. A small number that backward adds and
           forward does not, to keep a division finite, shows as a small error: below 1e-4 of the gradient it breaks
           this clause, above that ``Function.backward.gradient``.

        .. clause:: Function.backward.none-allowed
           :party: engine
           :level: may
           :sources: K T L M N "you can just pass None as a gradient"

           backward may return None for an input that needs no gradient. For a non-tensor it returns nothing else.

        .. clause:: Function.backward.saved-tensors
           :party: engine
           :level: must
           :sources: K T L M "can be used to retrieve tensors saved", T "saved tensors can be accessed through the"

           In backward, ``ctx.saved_tensors`` holds the tensors that were saved in the forward pass, in the same
           order.

        .. clause:: Function.backward.needs-input-grad
           :party: engine
           :level: must
           :sources: K T L M "as a tuple of booleans"

           ``ctx.needs_input_grad`` is a tuple with one bool for each input: True if that input needs a gradient,
           else False.

        .. clause:: Function.backward.needs-input-grad-honoured
           :level: must
           :sources: K T L M "representing whether each input needs gradient"

           Whichever inputs need a gradient, each of them gets the same gradient as if all did.

        .. clause:: Function.backward.once-differentiable
           :party: engine
           :level: must
           :sources: X Extending PyTorch "attempts to perform double backward"

           A backward decorated with ``once_differentiable`` gives the gradient. Differentiating that gradient
           raises an error.

        .. clause:: Function.backward.grads-untouched
           :level: should
           :sources: X Extending PyTorch "NEVER to modify these in-place"

           backward does not change the values of the gradients that it receives.

        .. clause:: Function.backward.any-layout
           :level: should
           :sources: X Extending PyTorch, ours

           Incoming gradients that are expanded, transposed, sliced or have stride zero give the same result as
           contiguous ones. Lazily conjugated or negated ones are read correctly, or refused.

        .. clause:: Function.backward.any-input
           :level: quality
           :sources: ours

           backward accepts what forward accepts: inputs that are transposed, sliced or expanded, with one row or
           many, or empty along the first dimension. If they are empty, gradients are empty or zero.

        .. clause:: Function.backward.large-numbers
           :level: quality
           :sources: ours

           If an input contains a large number, such as 1000 or -1000, or a constant contains -inf or NaN, as masks
           do, and the result is finite, the gradient is finite too, provided that there is a derivative.

        .. clause:: Function.backward.any-precision
           :level: may
           :sources: X Automatic mixed precision examples, ours

           In single and half precision, and with forward under autocast, backward accepts what forward accepts. If
           it does not, the report says what it raises.

        .. clause:: Function.backward.double
           :level: quality
           :sources: X Extending PyTorch "higher order derivatives will work"

           The second derivative is right, or computing it raises an error. It is never silently wrong.

        .. clause:: Function.backward.repeatable
           :level: quality
           :sources: ours

           With ``retain_graph=True`` a second backward pass gives the same gradient as the first.

        .. clause:: Function.backward.unused-output
           :level: must
           :sources: T "undefined output grad tensors will be expanded", N "undefined grad tensors will be expanded"

           If only some outputs reach the loss, the gradients are still right. For the others backward receives
           zeros, or None after ``set_materialize_grads(False)``.

        .. clause:: Function.backward.refused
           :party: engine
           :level: must
           :sources: K T L M N "as many tensors, as there were inputs",
              X Extending PyTorch "Gradients of non-Tensor arguments to forward must be None"

           PyTorch raises an error if backward returns too few values, a gradient that does not fit its input's
           shape, or a value for a non-tensor input. It accepts extra Nones, and a gradient for an input that needs
           none.

        Example:
            >>> import torch
            >>> from spec_impl.function import Function
            >>> class Product(Function):
            ...     @staticmethod
            ...     def forward(ctx, x, y):
            ...         ctx.save_for_backward(x, y)
            ...         return x * y
            ...
            ...     @staticmethod
            ...     def backward(ctx, grad):
            ...         x, y = ctx.saved_tensors
            ...         return (
            ...             grad * y if ctx.needs_input_grad[0] else None,
            ...             grad * x if ctx.needs_input_grad[1] else None,
            ...         )
            >>> x = torch.tensor(2.0, requires_grad=True)
            >>> Product.apply(x, torch.tensor(5.0)).backward()
            >>> x.grad
            tensor(5.)
        """

    @staticmethod
    def vjp(ctx: Any, *grads: Any) -> Any:
        """Do the same as :meth:`backward`, under another name: override one of the two.

        The clause ``Function.backward.vjp-alias`` states what PyTorch promises about it.

        Args:
            ctx: The context of the call.
            *grads: As for :meth:`backward`; ``*grad_outputs`` in PyTorch's own signature.

        Returns:
            As for :meth:`backward`.

        Example:
            >>> import torch
            >>> from spec_impl.function import Function
            >>> class Negate(Function):
            ...     @staticmethod
            ...     def forward(ctx, x):
            ...         return -x
            ...
            ...     @staticmethod
            ...     def vjp(ctx, grad):
            ...         return -grad
            >>> x = torch.ones((), requires_grad=True)
            >>> Negate.apply(x).backward()
            >>> x.grad
            tensor(-1.)
        """
