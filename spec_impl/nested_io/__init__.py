"""Functions whose inputs and outputs are nested.

Source document: the page of ``torch.autograd.function.NestedIOFunction`` (N).
"""

from __future__ import annotations

from typing import Any

import torch

from spec_impl.nesting import NestedContext, align, align_gradients, flatten, nothing, spread, unflatten

SPEC = "NestedIOFunction"
DOCUMENTS = {
    "N": (
        "torch: NestedIOFunction",
        "https://docs.pytorch.org/docs/stable/generated/torch.autograd.function.NestedIOFunction.html",
    ),
}


class NestedIOFunction(torch.autograd.Function):
    """A Function written as an instance, with tensors anywhere inside its arguments and results.

    PyTorch keeps its class of this name for old code, but it can no longer be run: the hooks of its base class that
    it relied on are gone. Here the documented interface works again. For new code, write a
    :class:`~spec_impl.function.Function`.

    Derive from it, override :meth:`forward_extended` and :meth:`backward_extended`, make an instance and call it.
    Each call works on a copy of the instance, so an instance may be called many times: what a call stores on
    ``self`` is visible in its own backward and nowhere else.

    Tuples, lists, named tuples and dicts can be nested in one another. They may contain tensors, None, numbers,
    strings and other plain values.

    This is the form with instances. :class:`NestedIOFunctionSeparate` is the one for :mod:`torch.func`.

    .. clause:: NestedIOFunction.jvp.nested
       :level: must
       :sources: N "as many inputs as the forward() got", ours

       jvp_extended receives tangents nested like the arguments, with None in place of each non-tensor. The tangents
       that it returns are matched to the result by their nesting.

    Example:
        >>> import torch
        >>> from spec_impl.nested_io import NestedIOFunction
        >>> class Scale(NestedIOFunction):
        ...     def forward_extended(self, tensors, factor):
        ...         self.factor = factor
        ...         return {name: x * factor for name, x in tensors.items()}
        ...
        ...     def backward_extended(self, grads):
        ...         return {name: grad * self.factor for name, grad in grads.items()}, None
        >>> x = torch.ones(2, requires_grad=True)
        >>> scale = Scale()
        >>> y = scale({"x": x}, 3)
        >>> y["x"].sum().backward()
        >>> x.grad
        tensor([3., 3.])
    """

    _derivative = "backward"  # the one that is being computed, or will be computed
    _arguments: Any  # the arguments and the result of a call, each tensor replaced by a slot
    _result: Any
    _saved: dict[str, Any]
    _context: Any  # the engine's ctx, while the engine runs the call

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Make an instance, without the warning of other Functions; subclasses may override it."""

    def __call__(self, *args: Any) -> Any:
        """Run the Function.

        Args:
            *args: Nested values.

        Returns:
            What :meth:`forward_extended` returned, with the graph attached to its tensors.
        """
        call = type(self).__new__(type(self))
        call.__dict__.update(self.__dict__)
        call._arguments, tensors = flatten(args, "args")
        call._saved = {}
        flat = _Run.apply(call, *tensors)
        return unflatten(call._result, flat)

    @classmethod
    def apply(cls, *args: Any) -> Any:
        """Make an instance and call it.

        Args:
            *args: Nested values.

        Returns:
            What :meth:`forward_extended` returned, with the graph attached to its tensors.

        .. clause:: NestedIOFunction.apply.instance
           :level: quality
           :sources: ours

           ``apply`` of the class takes nested arguments and returns what a new instance returns when called with
           them.
        """
        return cls()(*args)

    def forward(self, *args: torch.Tensor) -> tuple[torch.Tensor, ...]:  # type: ignore[override]
        """Nest the tensors of a call, run :meth:`forward_extended`, and flatten its result.

        Args:
            *args: The tensors of the arguments, flat, each of any shape and dtype.

        Returns:
            The tensors of the result, flat.

        Raises:
            ValueError: something in the arguments or the result cannot be nested.

        .. clause:: NestedIOFunction.forward.nested
           :level: must
           :sources: N "Shared forward utility", C torch 2.13.0 torch/autograd/function.py:851-859

           forward_extended receives the arguments as the caller nested them, in tuples, lists, named tuples and
           dicts, with None and plain values in place. The caller receives the result as forward_extended nested it.

        .. clause:: NestedIOFunction.forward.bad-type
           :level: quality
           :sources: ours

           A value of a type that cannot be nested, such as a set, raises an error that names the type and its place
           in the arguments or the result.

        .. clause:: NestedIOFunction.forward.reused
           :level: quality
           :sources: ours

           An instance may be called again before backward, and several instances may be in use at once. Each call
           has its own saved tensors and its own gradients.
        """
        result = self.forward_extended(*unflatten(self._arguments, args))
        self._result, tensors = flatten(result, "result")
        return tuple(tensors)

    def backward(self, *gradients: torch.Tensor | None) -> tuple[torch.Tensor | None, ...]:  # type: ignore[override]
        """Nest the gradients of a call, run :meth:`backward_extended`, and match its result to the arguments.

        Args:
            *gradients: The gradients of the result's tensors, flat.

        Returns:
            The gradients of the arguments' tensors, flat.

        Raises:
            ValueError: the result is not nested like the arguments.

        .. clause:: NestedIOFunction.backward.nested
           :level: must
           :sources: N "Shared backward utility", C torch 2.13.0 torch/autograd/function.py:841-847

           backward_extended receives gradients nested like the result, with None in place of each non-tensor. The
           gradients that it returns are matched to the arguments by their nesting.

        .. clause:: NestedIOFunction.backward.gradient
           :level: must
           :sources: N "User defined backward"

           The gradients of all tensors in the arguments are right, however arguments and result are nested.

        .. clause:: NestedIOFunction.backward.mismatch
           :level: quality
           :sources: ours

           If backward_extended returns a value that is not nested like the arguments, an error says where, and
           names the actual and the expected value.
        """
        nested = unflatten(self._result, gradients, beside=nothing)
        return align_gradients(self.backward_extended(*spread(nested)), self._arguments, "backward_extended")

    def _jvp(self, *tangents: torch.Tensor | None) -> tuple[torch.Tensor | None, ...]:
        """Nest the tangents of a call, run :meth:`jvp_extended`, and match its result to the call's."""
        nested = unflatten(self._arguments, tangents, beside=nothing)
        return tuple(align(self.jvp_extended(*nested), self._result, "jvp_extended"))

    def forward_extended(self, *input: Any) -> Any:
        """Compute the result. Override it.

        Args:
            *input: The arguments of the call.

        Returns:
            Any nested value.

        Raises:
            NotImplementedError: it is not overridden.

        .. clause:: NestedIOFunction.forward_extended.overridden
           :level: must
           :sources: N "User defined forward", C torch 2.13.0 torch/autograd/function.py:888-898

           Calling a class that does not override forward_extended raises NotImplementedError. So does
           differentiating the result of a class that does not override backward_extended.
        """
        raise NotImplementedError(f"{type(self).__qualname__} must override forward_extended")

    def backward_extended(self, *grad_output: Any) -> Any:
        """Compute the gradients. Override it.

        Args:
            *grad_output: Gradients nested like the result: one argument for each entry of a tuple or list, otherwise
                one argument.

        Returns:
            A tuple with one value for each argument of the call, or the value alone if there is one argument. Each
            is nested like the argument; None may replace any part.

        Raises:
            NotImplementedError: it is not overridden.
        """
        raise NotImplementedError(f"{type(self).__qualname__} must override backward_extended")

    def jvp_extended(self, *tangents: Any) -> Any:
        """Compute the tangents of the result. Override it for forward mode.

        Args:
            *tangents: One value for each argument of the call, nested like it.

        Returns:
            Tangents nested like the result.

        Raises:
            NotImplementedError: it is not overridden.
        """
        raise NotImplementedError(f"{type(self).__qualname__} must override jvp_extended")

    def save_for_backward(self, *args: Any) -> None:
        """Save the tensors in ``args``, nested in any way, for :meth:`backward_extended`."""
        self._saved["backward"], tensors = flatten(args, "save_for_backward")
        self._context.save_for_backward(*tensors)

    def save_for_forward(self, *tensors: Any) -> None:
        """Save ``tensors``, nested in any way, for :meth:`jvp_extended`.

        .. clause:: NestedIOFunction.save_for_forward.nested
           :level: must
           :sources: N "Save given tensors for a future call to jvp()", ours

           In jvp_extended, saved_tensors is a tuple of the arguments of save_for_forward, nested in the same way.
           It does not depend on save_for_backward.
        """
        self._saved["jvp"], flat = flatten(tensors, "save_for_forward")
        self._context.save_for_forward(*flat)

    @property
    def saved_tensors(self) -> Any:  # type: ignore[override]
        """The saved values, as a tuple.

        .. clause:: NestedIOFunction.saved_tensors.nested
           :level: must
           :sources: N "See Function.saved_tensors()", C torch 2.13.0 torch/autograd/function.py:861-874

           In backward_extended, saved_tensors is a tuple of the arguments of save_for_backward, nested in the same
           way.
        """
        return unflatten(self._saved[self._derivative], self._context.saved_tensors)

    def mark_dirty(self, *args: Any, **kwargs: Any) -> None:
        """Mark the tensors in ``args`` and ``kwargs``, all of them inputs, as changed in place.

        .. clause:: NestedIOFunction.mark_dirty.nested
           :level: must
           :sources: N "mark_dirty(*args, **kwargs)", C torch 2.13.0 torch/autograd/function.py:876-880

           mark_dirty marks every tensor in its arguments, at any depth, whether passed by position or by keyword.
        """
        self._context.mark_dirty(*flatten((args, kwargs), "mark_dirty")[1])

    def mark_non_differentiable(self, *args: Any, **kwargs: Any) -> None:
        """Mark the tensors in ``args`` and ``kwargs``, which the call returns, as not differentiable.

        .. clause:: NestedIOFunction.mark_non_differentiable.nested
           :level: must
           :sources: N "mark_non_differentiable(*args, **kwargs)", C torch 2.13.0 torch/autograd/function.py:882-886

           mark_non_differentiable marks every tensor in its arguments, at any depth, whether passed by position or
           by keyword.
        """
        self._context.mark_non_differentiable(*flatten((args, kwargs), "mark_non_differentiable")[1])

    def set_materialize_grads(self, value: bool) -> None:
        """Choose whether missing gradients arrive as zeros, if ``value`` is True, or as None.

        .. clause:: NestedIOFunction.set_materialize_grads.nested
           :level: must
           :sources: N "undefined grad tensors will be expanded"

           If no loss used a tensor of the result, backward_extended receives zeros as its gradient, or None after
           ``set_materialize_grads(False)``.
        """
        self._context.set_materialize_grads(value)

    @property
    def needs_input_grad(self) -> Any:  # type: ignore[override]
        """Whether each tensor needs a gradient, nested like the arguments; False for other values.

        .. clause:: NestedIOFunction.needs_input_grad.nested
           :level: quality
           :sources: ours

           needs_input_grad is nested like the arguments: True in place of each tensor that needs a gradient, False
           in place of anything else. forward_extended, setup_context_extended and backward_extended can read it.
        """
        return unflatten(self._arguments, self._context.needs_input_grad[1:], beside=lambda _: False)


class _Run(torch.autograd.Function):
    """One call of a NestedIOFunction, as the engine sees it.

    ``call`` has the context only while it runs: ctx refers to the call, and a reference cycle would keep memory.
    """

    @staticmethod
    def forward(ctx: Any, call: NestedIOFunction, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        ctx.call, call._context = call, ctx
        try:
            return call.forward(*tensors)
        finally:
            del call._context

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor | None) -> tuple[torch.Tensor | None, ...]:
        call = ctx.call
        call._context = ctx
        try:
            return None, *call.backward(*grads)
        finally:
            del call._context

    @staticmethod
    def jvp(ctx: Any, _: None, *tangents: torch.Tensor | None) -> tuple[torch.Tensor | None, ...]:
        call = ctx.call
        call._context, call._derivative = ctx, "jvp"
        try:
            flat: tuple[torch.Tensor | None, ...] = call._jvp(*tangents)
            return flat
        finally:
            del call._context, call._derivative


class NestedIOFunctionSeparate(torch.autograd.Function):
    """Nested inputs and outputs in the separate form, for :func:`torch.vmap` and the other transforms.

    Derive from it, override the static methods ``forward_extended``, ``setup_context_extended``,
    ``backward_extended`` and, for forward mode, ``jvp_extended``, and call ``apply`` on the class.

    .. clause:: NestedIOFunction.vmap.batched
       :level: quality
       :sources: ours

       In the separate form, torch.vmap over tensors anywhere in the arguments equals calling it sample by sample,
       gradients included.

    Example:
        >>> import torch
        >>> from spec_impl.nested_io import NestedIOFunctionSeparate
        >>> class Product(NestedIOFunctionSeparate):
        ...     @staticmethod
        ...     def forward_extended(pair):
        ...         return {"product": pair[0] * pair[1]}
        ...
        ...     @staticmethod
        ...     def setup_context_extended(ctx, inputs, output):
        ...         ctx.save_for_backward(*inputs)
        ...
        ...     @staticmethod
        ...     def backward_extended(ctx, grads):
        ...         (pair,) = ctx.saved_tensors
        ...         return [grads["product"] * pair[1], grads["product"] * pair[0]]
        >>> torch.func.grad(lambda x: Product.apply([x, x])["product"])(torch.tensor(3.0))
        tensor(6.)
    """

    generate_vmap_rule = True

    @classmethod
    def apply(cls, *args: Any) -> Any:
        """Run the Function.

        Args:
            *args: Nested values.

        Returns:
            What :meth:`forward_extended` returned, with the graph attached to its tensors.
        """
        if args and isinstance(args[0], _Call):  # torch.func calls this a second time, with flat arguments
            return super().apply(*args)
        skeleton, tensors = flatten(args, "args")
        call = _Call(cls, skeleton)
        flat = super().apply(call, *tensors)
        return unflatten(call.result, flat)

    @staticmethod
    def forward(call: _Call, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Nest ``tensors`` as the arguments of ``call`` are, run :meth:`forward_extended`, and flatten its result."""
        result = call.function.forward_extended(*unflatten(call.arguments, tensors))
        call.result, flat = flatten(result, "result")
        return tuple(flat)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[torch.Tensor, ...]) -> None:
        """Run :meth:`setup_context_extended` on nested inputs and output."""
        ctx.call, *tensors = inputs
        call = ctx.call
        nested = unflatten(call.arguments, tensors), unflatten(call.result, output)
        call.function.setup_context_extended(NestedContext(ctx), *nested)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor | None) -> tuple[torch.Tensor | None, ...]:
        """Run :meth:`backward_extended` on ``grads``, nested like the result."""
        call = ctx.call
        nested = spread(unflatten(call.result, grads, beside=nothing))
        result = call.function.backward_extended(NestedContext(ctx), *nested)
        return None, *align_gradients(result, call.arguments, "backward_extended")

    @staticmethod
    def jvp(ctx: Any, _: None, *tangents: torch.Tensor | None) -> tuple[torch.Tensor | None, ...]:
        """Run :meth:`jvp_extended` on ``tangents``, nested like the arguments."""
        call = ctx.call
        nested = unflatten(call.arguments, tangents, beside=nothing)
        result = call.function.jvp_extended(NestedContext(ctx, "jvp"), *nested)
        return tuple(align(result, call.result, "jvp_extended"))

    @staticmethod
    def forward_extended(*args: Any) -> Any:
        """Compute the result from ``args``, the nested arguments. Override it, or it raises NotImplementedError."""
        raise NotImplementedError("forward_extended must be overridden")

    @staticmethod
    def setup_context_extended(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        """Store on ctx what the derivatives need. Unless overridden, it stores nothing."""

    @staticmethod
    def backward_extended(ctx: Any, *grads: Any) -> Any:
        """Compute the gradients of the arguments from ``grads``, the gradients of the result's entries.

        Raises:
            NotImplementedError: it is not overridden.
        """
        raise NotImplementedError("backward_extended must be overridden")

    @staticmethod
    def jvp_extended(ctx: Any, *tangents: Any) -> Any:
        """Compute the tangents of the result from ``tangents``, the tangents of the arguments.

        Raises:
            NotImplementedError: it is not overridden.
        """
        raise NotImplementedError("jvp_extended must be overridden for forward-mode differentiation")


class _Call:
    """The part of a call of a NestedIOFunctionSeparate that is not tensors."""

    def __init__(self, function: type[NestedIOFunctionSeparate], arguments: Any) -> None:
        self.function = function
        self.arguments = arguments
        self.result: Any = None  # known once forward has run
