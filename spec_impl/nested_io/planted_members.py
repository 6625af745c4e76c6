"""Planted bugs in NestedIOFunction's members other than forward and backward: the reference with one changed."""

from __future__ import annotations

import torch

from spec_impl.nested_io import NestedIOFunction, NestedIOFunctionSeparate
from spec_impl.nesting import flatten, unflatten


class ApplyTakesOneArgument(NestedIOFunction):
    """Passes the arguments of apply on as one tuple.

    Breaks: NestedIOFunction.apply.instance
    """

    @classmethod
    def apply(cls, *args):
        return cls()(args)


class ApplyWithoutResult(NestedIOFunction):
    """Returns nothing from apply.

    Breaks: NestedIOFunction.apply.instance
    """

    @classmethod
    def apply(cls, *args):
        cls()(*args)


class NeedsInARow(NestedIOFunction):
    """Returns the engine's needs_input_grad: a flat tuple with one value for each tensor.

    Breaks: NestedIOFunction.needs_input_grad.nested
    """

    @property
    def needs_input_grad(self):
        return self._context.needs_input_grad[1:]


class AllNeeded(NestedIOFunction):
    """Returns True for every tensor in needs_input_grad.

    Breaks: NestedIOFunction.needs_input_grad.nested
    """

    @property
    def needs_input_grad(self):
        count = len(self._context.needs_input_grad) - 1
        return unflatten(self._arguments, [True] * count, beside=lambda _: False)


class PlainValuesAmongNeeds(NestedIOFunction):
    """Includes the plain values of the arguments in needs_input_grad.

    Breaks: NestedIOFunction.needs_input_grad.nested
    """

    @property
    def needs_input_grad(self):
        return unflatten(self._arguments, self._context.needs_input_grad[1:])


class ZerosAnyway(NestedIOFunction):
    """Ignores set_materialize_grads.

    Breaks: NestedIOFunction.set_materialize_grads.nested
    """

    def set_materialize_grads(self, value):
        pass


class NoneAnyway(NestedIOFunction):
    """Turns zeros off in set_materialize_grads, whatever its argument.

    Breaks: NestedIOFunction.set_materialize_grads.nested
    """

    def set_materialize_grads(self, value):
        super().set_materialize_grads(False)


class MisfitsDropped(NestedIOFunction):
    """Treats gradients with the wrong nesting as None, silently.

    Breaks: NestedIOFunction.backward.mismatch
    """

    def backward(self, *gradients):
        try:
            return super().backward(*gradients)
        except ValueError:
            return tuple(None for _ in flatten(self._arguments, "args")[1]) or (None,) * self._count

    def forward(self, *args):
        self._count = len(args)
        return super().forward(*args)


class MisfitsUnexplained(NestedIOFunction):
    """Raises an error that does not say where the nesting differs.

    Breaks: NestedIOFunction.backward.mismatch
    """

    def backward(self, *gradients):
        try:
            return super().backward(*gradients)
        except ValueError:
            raise ValueError("gradients of another nesting") from None


class NoRule(NestedIOFunctionSeparate):
    """Uses the separate form without a rule for torch.vmap.

    Breaks: NestedIOFunction.vmap.batched
    """

    generate_vmap_rule = False


class FirstSampleForAll(NestedIOFunctionSeparate):
    """Computes the first sample only under torch.vmap, and returns it for all.

    Breaks: NestedIOFunction.vmap.batched
    """

    generate_vmap_rule = False

    @staticmethod
    def vmap(info, in_dims, call, *tensors):
        pairs = zip(tensors, in_dims[1:], strict=True)
        first = [tensor if dim is None else tensor.select(dim, 0) for tensor, dim in pairs]
        result = torch.autograd.Function.apply.__func__(call.function, call, *first)
        return result, (None,) * len(result)


class TangentsInARow(NestedIOFunction):
    """Passes tangents to jvp_extended as a flat sequence.

    Breaks: NestedIOFunction.jvp.nested
    """

    def _jvp(self, *tangents):
        return tuple(flatten(self.jvp_extended(*tangents), "jvp_extended")[1])


class PlainValuesAmongTangents(NestedIOFunction):
    """Passes the plain values of the arguments to jvp_extended.

    Breaks: NestedIOFunction.jvp.nested
    """

    def _jvp(self, *tangents):
        nested = unflatten(self._arguments, tangents)
        return tuple(flatten(self.jvp_extended(*nested), "jvp_extended")[1])


class OneNestingForBothSaves(NestedIOFunction):
    """Uses the nesting of save_for_forward for both saves.

    Breaks: NestedIOFunction.save_for_forward.nested
    """

    def save_for_forward(self, *args):
        super().save_for_forward(*args)
        self._saved["backward"] = self._saved["jvp"]
