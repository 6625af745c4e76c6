"""Planted bugs of NestedIOFunction: the reference with one member changed."""

from __future__ import annotations

import torch

from spec_impl.nested_io import NestedIOFunction, NestedIOFunctionSeparate
from spec_impl.nesting import align, flatten, unflatten


def _same(parts):
    return parts


def _changed(value, tuples=None, lists=_same, dicts=_same):
    """Replace the containers of a nested value, from the inside out; named tuples too, if ``tuples`` is given."""
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
    """Passes named tuples among the arguments on as plain tuples.

    Breaks: NestedIOFunction.forward.nested
    """

    def forward(self, *args):
        nested = unflatten(self._arguments, args)
        result = self.forward_extended(*_changed(nested, tuple))
        self._result, tensors = flatten(result, "result")
        return tuple(tensors)


class ListsFrozen(NestedIOFunction):
    """Returns tuples for lists in the result.

    Breaks: NestedIOFunction.forward.nested
    """

    def __call__(self, *args):
        result = super().__call__(*args)
        return _changed(result, lists=tuple)


class NoneDropped(NestedIOFunction):
    """Drops None from lists among the arguments.

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
    """Returns the tensors of the result in a flat tuple.

    Breaks: NestedIOFunction.forward.nested
    """

    def __call__(self, *args):
        return tuple(flatten(super().__call__(*args), "result")[1])


class FlatDicts(NestedIOFunctionSeparate):
    """Passes dicts among the arguments on as lists of their values.

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
    """Whether a forward_extended needs its dict because it accesses it by name."""
    return function.forward_extended.__code__.co_argcount > 0


class FlatGradients(NestedIOFunction):
    """Passes the gradients of a nested tuple on as a flat sequence, as a plain Function would.

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
    """Includes the plain values of the result among the gradients.

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
    """Assigns the gradients that backward_extended returns in order, ignoring keys.

    Breaks: NestedIOFunction.backward.nested
    """

    def backward(self, *gradients):
        nested = unflatten(self._result, gradients, beside=_nothing)
        spread = nested if isinstance(nested, tuple | list) else (nested,)
        return tuple(flatten(self.backward_extended(*spread), "backward_extended")[1])


class SavedNamedTuplesLost(NestedIOFunction):
    """Returns saved named tuples as plain tuples.

    Breaks: NestedIOFunction.saved_tensors.nested
    """

    @property
    def saved_tensors(self):
        return _changed(super().saved_tensors, tuple)


class SavedAlone(NestedIOFunction):
    """Returns a single saved value without the tuple around it.

    Breaks: NestedIOFunction.saved_tensors.nested
    """

    @property
    def saved_tensors(self):
        saved = super().saved_tensors
        return saved[0] if len(saved) == 1 else saved


class SavedWithoutNone(NestedIOFunctionSeparate):
    """Drops None from saved lists.

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
    """Stores what is saved on the class, so that every call reads the values of the last one.

    Breaks: NestedIOFunction.forward.reused
    """

    last = ()

    def save_for_backward(self, *args):
        type(self).last = args

    @property
    def saved_tensors(self):
        return type(self).last


class OneCallAtATime(NestedIOFunction):
    """Uses the instance itself for each call, so that a second call overwrites the state of the first.

    Breaks: NestedIOFunction.forward.reused
    """

    def __call__(self, *args):
        from spec_impl.nested_io import _Run

        self._arguments, tensors = flatten(args, "args")
        flat = _Run.apply(self, *tensors)
        return unflatten(self._result, flat)


class DirtyByPlaceOnly(NestedIOFunction):
    """Ignores keyword arguments in mark_dirty.

    Breaks: NestedIOFunction.mark_dirty.nested
    """

    def mark_dirty(self, *args, **kwargs):
        super().mark_dirty(*args)


class DirtyAtTheTopOnly(NestedIOFunction):
    """Ignores containers in mark_dirty.

    Breaks: NestedIOFunction.mark_dirty.nested
    """

    def mark_dirty(self, *args, **kwargs):
        super().mark_dirty(*(part for part in (*args, *kwargs.values()) if isinstance(part, torch.Tensor)))


class NonDifferentiableByPlaceOnly(NestedIOFunction):
    """Ignores keyword arguments in mark_non_differentiable.

    Breaks: NestedIOFunction.mark_non_differentiable.nested
    """

    def mark_non_differentiable(self, *args, **kwargs):
        super().mark_non_differentiable(*args)


class NonDifferentiableListsOnly(NestedIOFunction):
    """Ignores dicts in mark_non_differentiable.

    Breaks: NestedIOFunction.mark_non_differentiable.nested
    """

    def mark_non_differentiable(self, *args, **kwargs):
        super().mark_non_differentiable(*_changed([*args, *kwargs.values()], None, dicts=lambda parts: None))


class SilentForward(NestedIOFunction):
    """Returns the arguments if forward_extended is not overridden, instead of raising.

    Breaks: NestedIOFunction.forward_extended.overridden
    """

    def forward_extended(self, *input):
        skeleton, tensors = flatten(input, "input")
        return unflatten(skeleton, [x.clone() for x in tensors])


class SilentBackward(NestedIOFunction):
    """Returns no gradients if backward_extended is not overridden, instead of raising.

    Breaks: NestedIOFunction.forward_extended.overridden
    """

    def backward_extended(self, *grad_output):
        return tuple(None for _ in self._arguments)


class AnotherError(NestedIOFunctionSeparate):
    """Raises another exception if forward_extended is not overridden.

    Breaks: NestedIOFunction.forward_extended.overridden
    """

    @staticmethod
    def forward_extended(*args):
        raise TypeError("no forward_extended")


class AnythingGoes(NestedIOFunction):
    """Treats objects that cannot be nested as plain values: tensors inside lose their gradient silently.

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
    """Names only the type in its error, not the place, as PyTorch once did.

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
    """Drops the gradient of the last tensor if there are four or more.

    Breaks: NestedIOFunction.backward.gradient
    """

    def backward(self, *gradients):
        *found, last = super().backward(*gradients)
        return (*found, last if len(found) < 3 else None)


class NoneForUnused(NestedIOFunction):
    """Asks for None for unused results, although its caller did not, and fills in the sum of the first gradient.

    Breaks: NestedIOFunction.backward.gradient
    """

    def forward(self, *args):
        self._context.set_materialize_grads(False)
        return super().forward(*args)

    def backward(self, *gradients):
        first = next(gradient for gradient in gradients if gradient is not None)
        filled = [first.sum() if gradient is None else gradient for gradient in gradients]
        return super().backward(*filled)
