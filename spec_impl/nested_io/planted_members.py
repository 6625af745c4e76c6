"""Bugs in what NestedIOFunction offers beside forward and backward: the reference with one member made wrong."""

from __future__ import annotations

import torch

from spec_impl.nested_io import NestedIOFunction, NestedIOFunctionSeparate
from spec_impl.nesting import flatten, unflatten


class ApplyTakesOneArgument(NestedIOFunction):
    """apply hands its arguments on as one tuple.

    Breaks: NestedIOFunction.apply.instance
    """

    @classmethod
    def apply(cls, *args):
        return cls()(args)


class ApplyWithoutResult(NestedIOFunction):
    """apply computes, and gives nothing back.

    Breaks: NestedIOFunction.apply.instance
    """

    @classmethod
    def apply(cls, *args):
        cls()(*args)


class NeedsInARow(NestedIOFunction):
    """needs_input_grad is the engine's: one value for each tensor, in a row.

    Breaks: NestedIOFunction.needs_input_grad.nested
    """

    @property
    def needs_input_grad(self):
        return self._context.needs_input_grad[1:]


class AllNeeded(NestedIOFunction):
    """needs_input_grad is True at every tensor.

    Breaks: NestedIOFunction.needs_input_grad.nested
    """

    @property
    def needs_input_grad(self):
        count = len(self._context.needs_input_grad) - 1
        return unflatten(self._arguments, [True] * count, beside=lambda _: False)


class PlainValuesAmongNeeds(NestedIOFunction):
    """needs_input_grad contains the plain values of the arguments.

    Breaks: NestedIOFunction.needs_input_grad.nested
    """

    @property
    def needs_input_grad(self):
        return unflatten(self._arguments, self._context.needs_input_grad[1:])


class ZerosAnyway(NestedIOFunction):
    """set_materialize_grads is taken and forgotten.

    Breaks: NestedIOFunction.set_materialize_grads.nested
    """

    def set_materialize_grads(self, value):
        pass


class NoneAnyway(NestedIOFunction):
    """set_materialize_grads turns zeros off, whatever it is given.

    Breaks: NestedIOFunction.set_materialize_grads.nested
    """

    def set_materialize_grads(self, value):
        super().set_materialize_grads(False)


class MisfitsDropped(NestedIOFunction):
    """Gradients that are nested in another way silently count as none.

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
    """The error says that something is wrong, and no more.

    Breaks: NestedIOFunction.backward.mismatch
    """

    def backward(self, *gradients):
        try:
            return super().backward(*gradients)
        except ValueError:
            raise ValueError("gradients of another nesting") from None


class NoRule(NestedIOFunctionSeparate):
    """The separate form without a rule for torch.vmap.

    Breaks: NestedIOFunction.vmap.batched
    """

    generate_vmap_rule = False


class FirstSampleForAll(NestedIOFunctionSeparate):
    """Under torch.vmap the first sample is computed, and taken for all.

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
    """jvp_extended gets one tangent for each tensor, in a row.

    Breaks: NestedIOFunction.jvp.nested
    """

    def _jvp(self, *tangents):
        return tuple(flatten(self.jvp_extended(*tangents), "jvp_extended")[1])


class PlainValuesAmongTangents(NestedIOFunction):
    """jvp_extended receives the plain values of the arguments.

    Breaks: NestedIOFunction.jvp.nested
    """

    def _jvp(self, *tangents):
        nested = unflatten(self._arguments, tangents)
        return tuple(flatten(self.jvp_extended(*nested), "jvp_extended")[1])


class OneNestingForBothSaves(NestedIOFunction):
    """What is saved last says how both saves are nested.

    Breaks: NestedIOFunction.save_for_forward.nested
    """

    def save_for_forward(self, *args):
        super().save_for_forward(*args)
        self._saved["backward"] = self._saved["jvp"]
