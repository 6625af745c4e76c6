"""Bugs in implementations of NestedIOFunction: the reference with one member made wrong."""

from __future__ import annotations

import torch

from spec_impl.nested_io import NestedIOFunction, NestedIOFunctionSeparate
from spec_impl.nesting import align, flatten, unflatten


def _same(parts):
    return parts


def _changed(value, tuples=None, lists=_same, dicts=_same):
    """A nested value with its containers replaced, from the inside out; named tuples too, where ``tuples`` is given."""
    if isinstance(value, dict):
        return dicts({key: _changed(part, tuples, lists, dicts) for key, part in value.items()})
    if isinstance(value, list):
        return lists([_changed(part, tuples, lists, dicts) for part in value])
    if isinstance(value, tuple):
        parts = [_changed(part, tuples, lists, dicts) for part in value]
        if tuples is not None:
            return tuples(parts)
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    return value


def _nothing(_):
    return None


class NamedTuplesLost(NestedIOFunction):
    """Named tuples in the arguments arrive as plain ones.

    Breaks: NestedIOFunction.forward.nested
    """

    def forward(self, *args):
        nested = unflatten(self._arguments, args)
        result = self.forward_extended(*_changed(nested, tuple))
        self._result, tensors = flatten(result, "result")
        return tuple(tensors)


class ListsFrozen(NestedIOFunction):
    """Lists in the result come back as tuples.

    Breaks: NestedIOFunction.forward.nested
    """

    def __call__(self, *args):
        result = super().__call__(*args)
        return _changed(result, lists=tuple)


class NoneDropped(NestedIOFunction):
    """None in lists of the arguments is left out.

    Breaks: NestedIOFunction.forward.nested
    """

    def forward(self, *args):
        nested = unflatten(self._arguments, args)
        changed = [
            [inner for inner in part if inner is not None] if isinstance(part, list) else part for part in nested
        ]
        result = self.forward_extended(*changed)
        self._result, tensors = flatten(result, "result")
        return tuple(tensors)


class FlatResult(NestedIOFunction):
    """The result comes back as its tensors in a row.

    Breaks: NestedIOFunction.forward.nested
    """

    def __call__(self, *args):
        return tuple(flatten(super().__call__(*args), "result")[1])


class FlatDicts(NestedIOFunctionSeparate):
    """Dicts in the arguments arrive as lists of their values.

    Breaks: NestedIOFunction.forward.nested
    """

    @staticmethod
    def forward(call, *tensors):
        nested = unflatten(call.arguments, tensors)
        changed = nested if _by_name(call.function) else _changed(nested, dicts=lambda parts: list(parts.values()))
        result = call.function.forward_extended(*changed)
        call.result, flat = flatten(result, "result")
        return tuple(flat)


def _by_name(function):
    """Whether a forward_extended takes its dict apart by name, and could not run otherwise."""
    return function.forward_extended.__code__.co_argcount > 0


class FlatGradients(NestedIOFunction):
    """The gradients of a tuple come in a row, as those of plain Functions do, however nested the tuple is.

    Breaks: NestedIOFunction.backward.nested
    """

    def backward(self, *gradients):
        if not isinstance(self._result, tuple):
            return super().backward(*gradients)
        result = self.backward_extended(*gradients)
        if len(self._arguments) == 1 and not isinstance(result, tuple):
            result = (result,)
        return tuple(align(result, self._arguments, "backward_extended"))


class PlainValuesAmongGradients(NestedIOFunction):
    """Where the result has a plain value, so have the gradients.

    Breaks: NestedIOFunction.backward.nested
    """

    def backward(self, *gradients):
        nested = unflatten(self._result, gradients)
        spread = nested if isinstance(nested, tuple | list) else (nested,)
        result = self.backward_extended(*spread)
        if len(self._arguments) == 1 and not (isinstance(result, tuple) and len(result) == 1):
            result = (result,)
        return tuple(align(result, self._arguments, "backward_extended"))


class MatchedInOrder(NestedIOFunction):
    """Gradients that backward_extended returns are dealt out one after the other, whatever their keys.

    Breaks: NestedIOFunction.backward.nested
    """

    def backward(self, *gradients):
        nested = unflatten(self._result, gradients, beside=_nothing)
        spread = nested if isinstance(nested, tuple | list) else (nested,)
        return tuple(flatten(self.backward_extended(*spread), "backward_extended")[1])


class SavedNamedTuplesLost(NestedIOFunction):
    """Named tuples are saved as plain ones.

    Breaks: NestedIOFunction.saved_tensors.nested
    """

    @property
    def saved_tensors(self):
        return _changed(super().saved_tensors, tuple)


class SavedAlone(NestedIOFunction):
    """A single value that was saved comes back without the tuple around it.

    Breaks: NestedIOFunction.saved_tensors.nested
    """

    @property
    def saved_tensors(self):
        saved = super().saved_tensors
        return saved[0] if len(saved) == 1 else saved


class SavedWithoutNone(NestedIOFunctionSeparate):
    """None inside saved lists is dropped.

    Breaks: NestedIOFunction.saved_tensors.nested
    """

    @staticmethod
    def setup_context(ctx, inputs, output):
        NestedIOFunctionSeparate.setup_context(ctx, inputs, output)
        ctx.saved_for_backward_nesting = _changed(
            getattr(ctx, "saved_for_backward_nesting", ()),
            None,
            lambda parts: [part for part in parts if part is not None],
        )


class SavedOnTheInstance(NestedIOFunction):
    """What is saved stays on the object that made the calls, so that the last call's values are found.

    Breaks: NestedIOFunction.forward.reused
    """

    last = ()

    def save_for_backward(self, *args):
        type(self).last = args

    @property
    def saved_tensors(self):
        return type(self).last


class OneCallAtATime(NestedIOFunction):
    """The instance itself does the work, so that a second call takes the place of the first.

    Breaks: NestedIOFunction.forward.reused
    """

    def __call__(self, *args):
        from spec_impl.nested_io import _Run

        self._arguments, tensors = flatten(args, "args")
        flat = _Run.apply(self, *tensors)
        return unflatten(self._result, flat)


class DirtyByPlaceOnly(NestedIOFunction):
    """mark_dirty ignores keyword arguments.

    Breaks: NestedIOFunction.mark_dirty.nested
    """

    def mark_dirty(self, *args, **kwargs):
        super().mark_dirty(*args)


class DirtyAtTheTopOnly(NestedIOFunction):
    """mark_dirty looks into no container.

    Breaks: NestedIOFunction.mark_dirty.nested
    """

    def mark_dirty(self, *args, **kwargs):
        super().mark_dirty(*(part for part in (*args, *kwargs.values()) if isinstance(part, torch.Tensor)))


class NonDifferentiableByPlaceOnly(NestedIOFunction):
    """mark_non_differentiable ignores keyword arguments.

    Breaks: NestedIOFunction.mark_non_differentiable.nested
    """

    def mark_non_differentiable(self, *args, **kwargs):
        super().mark_non_differentiable(*args)


class NonDifferentiableListsOnly(NestedIOFunction):
    """mark_non_differentiable looks into lists and not into dicts.

    Breaks: NestedIOFunction.mark_non_differentiable.nested
    """

    def mark_non_differentiable(self, *args, **kwargs):
        super().mark_non_differentiable(*_changed([*args, *kwargs.values()], None, dicts=lambda parts: None))


class SilentForward(NestedIOFunction):
    """A forward_extended that is not overridden returns its arguments.

    Breaks: NestedIOFunction.forward_extended.overridden
    """

    def forward_extended(self, *input):
        skeleton, tensors = flatten(input, "input")
        return unflatten(skeleton, [x.clone() for x in tensors])


class SilentBackward(NestedIOFunction):
    """A backward_extended that is not overridden silently gives no gradient.

    Breaks: NestedIOFunction.forward_extended.overridden
    """

    def backward_extended(self, *grad_output):
        return tuple(None for _ in self._arguments)


class AnotherError(NestedIOFunctionSeparate):
    """A forward_extended that is not overridden raises another exception.

    Breaks: NestedIOFunction.forward_extended.overridden
    """

    @staticmethod
    def forward_extended(*args):
        raise TypeError("no forward_extended")


class AnythingGoes(NestedIOFunction):
    """What cannot be nested is taken along as a plain value: tensors in it are cut off silently.

    Breaks: NestedIOFunction.forward.bad-type
    """

    def __call__(self, *args):
        boxes = []
        plain = _boxed(args, boxes)
        self._boxes = boxes
        return super().__call__(*plain)

    def forward(self, *args):
        nested = unflatten(self._arguments, args)
        result = self.forward_extended(*_unboxed(nested, self._boxes))
        self._result, tensors = flatten(_boxed(result, self._boxes), "result")
        return tuple(tensors)


class NoPlaceInTheError(NestedIOFunction):
    """The error names the type and not the place, like the one that PyTorch had.

    Breaks: NestedIOFunction.forward.bad-type
    """

    def __call__(self, *args):
        try:
            return super().__call__(*args)
        except ValueError as error:
            raise ValueError(
                f"cannot process an object of type {str(error).split(' is a ')[1].split(',')[0]}"
            ) from None


def _boxed(value, boxes):
    if isinstance(value, dict):
        return {key: _boxed(part, boxes) for key, part in value.items()}
    if isinstance(value, tuple | list):
        parts = [_boxed(part, boxes) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    if value is None or isinstance(value, torch.Tensor | int | float | str | bool):
        return value
    boxes.append(value)
    return f"box {len(boxes) - 1}"


def _unboxed(value, boxes):
    if isinstance(value, dict):
        return {key: _unboxed(part, boxes) for key, part in value.items()}
    if isinstance(value, tuple | list):
        parts = [_unboxed(part, boxes) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    return boxes[int(value[4:])] if isinstance(value, str) and value.startswith("box ") else value


class LastTensorLost(NestedIOFunction):
    """The gradient of the last tensor is dropped where there are four or more.

    Breaks: NestedIOFunction.backward.gradient
    """

    def backward(self, *gradients):
        *found, last = super().backward(*gradients)
        return (*found, last if len(found) < 3 else None)


class NoneForUnused(NestedIOFunction):
    """Gradients that nobody computed come as None, which was not asked for, and count as the first one's.

    Breaks: NestedIOFunction.backward.gradient
    """

    def forward(self, *args):
        self._context.set_materialize_grads(False)
        return super().forward(*args)

    def backward(self, *gradients):
        first = next(gradient for gradient in gradients if gradient is not None)
        filled = [first.sum() if gradient is None else gradient for gradient in gradients]
        return super().backward(*filled)
