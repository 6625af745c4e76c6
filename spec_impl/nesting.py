"""Nested values: split them into a flat list of tensors and a skeleton, rebuild them, and save them on a ctx.

A skeleton is the nested value with a :class:`Slot` in place of each tensor. It contains no tensor, so it may be kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from enum import Enum
from types import BuiltinFunctionType, EllipsisType, FunctionType, NoneType
from typing import Any

import torch

# The types allowed beside tensors. Any other type might contain tensors that are not found, whose gradients would be
# silently lost.
_PLAIN = (
    *(NoneType, bool, int, float, complex, str, bytes, Enum, slice, range, EllipsisType),
    *(type, FunctionType, BuiltinFunctionType),
    *(torch.dtype, torch.device, torch.layout, torch.memory_format, torch.Size, torch.Generator),
)


@dataclass(frozen=True)
class Slot:
    """The place of a tensor: its index in the flat list."""

    index: int


def flatten(value: Any, where: str) -> tuple[Any, list[torch.Tensor]]:
    """Split ``value`` into a skeleton and its tensors.

    Args:
        value: Tensors in tuples, lists, named tuples and dicts, with plain values and None beside them.
        where: What to call ``value`` in an error.

    Returns:
        The skeleton, and the tensors in order.

    Raises:
        ValueError: it contains a value of another type; the message says which type, and where.

    Example:
        >>> import torch
        >>> from spec_impl.nesting import flatten
        >>> flatten({"a": torch.ones(()), "b": [2, None]}, "args")
        ({'a': Slot(index=0), 'b': [2, None]}, [tensor(1.)])
        >>> flatten(({"a": {1, 2}},), "args")
        Traceback (most recent call last):
        ...
        ValueError: args[0]['a'] is a set, which cannot be nested (tuples, lists and dicts can)
    """
    tensors: list[torch.Tensor] = []
    return _take_apart(value, where, tensors), tensors


def unflatten(skeleton: Any, values: Sequence[Any], beside: Callable[[Any], Any] = lambda plain: plain) -> Any:
    """Rebuild a nested value.

    Args:
        skeleton: A skeleton that :func:`flatten` returned.
        values: The values for the slots.
        beside: Called with each plain value; by default it is kept.

    Example:
        >>> from spec_impl.nesting import Slot, unflatten
        >>> unflatten([Slot(1), (Slot(0), 7)], ["x", "y"])
        ['y', ('x', 7)]
    """
    if isinstance(skeleton, Slot):
        return values[skeleton.index]
    if _is_container(skeleton):
        return _rebuild(skeleton, lambda _, inner: unflatten(inner, values, beside))
    return beside(skeleton)


def align(values: Any, skeleton: Any, where: str) -> Iterator[torch.Tensor | None]:
    """Match nested gradients or tangents with a skeleton: one value for each of its slots, in order.

    None may replace a whole branch, and a dict may omit keys.

    Raises:
        ValueError: ``values`` is not nested like the skeleton; the message says where.

    Example:
        >>> from spec_impl.nesting import Slot, align
        >>> list(align((None, {}), ([Slot(0), Slot(1)], {"a": Slot(2)}), "gradients"))
        [None, None, None]
    """
    if isinstance(skeleton, Slot):
        if not isinstance(values, torch.Tensor | NoneType):
            raise ValueError(f"{where} must be a tensor or None, but is {_shape(values)}")  # noqa: TRY004
        yield values
    elif _is_container(skeleton):
        known = dict(_items(skeleton))
        given = dict.fromkeys(known) if values is None else _as_dict(values, skeleton, where)
        for key, inner in known.items():
            yield from align(given.get(key), inner, f"{where}[{key!r}]")
    elif values is not None:
        raise ValueError(f"{where} must be None: there is no tensor there")


def nothing(_: Any) -> None:
    """Return None, the gradient and the tangent of a plain value."""


def spread(gradients: Any) -> tuple[Any, ...]:
    """Return the entries of a tuple or list as arguments; anything else as a single argument."""
    return tuple(gradients) if isinstance(gradients, tuple | list) else (gradients,)


def align_gradients(result: Any, arguments: tuple[Any, ...], where: str) -> tuple[torch.Tensor | None, ...]:
    """Return the gradients in ``result``, one for each tensor in the arguments; one argument needs no tuple."""
    if len(arguments) == 1 and not _is_for_each(result, arguments):
        result = (result,)
    return tuple(align(result, arguments, where))


class NestedContext:
    """Wrap a ctx so that its methods take nested values; all other attributes are those of the ctx."""

    def __init__(self, ctx: Any, derivative: str = "backward") -> None:
        """Wrap ``ctx`` for the computation of ``derivative``: "backward" or "jvp"."""
        vars(self).update(_ctx=ctx, _derivative=derivative)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ctx, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._ctx, name, value)

    @property
    def saved_tensors(self) -> Any:
        """The values saved for the derivative that is being computed."""
        return unflatten(getattr(self._ctx, f"saved_for_{self._derivative}_nesting"), self._ctx.saved_tensors)

    @property
    def needs_input_grad(self) -> Any:
        """Whether each tensor among the arguments needs a gradient; False for other values."""
        needed = self._ctx.needs_input_grad[1:]
        return unflatten(self._ctx.call.arguments, needed, beside=lambda _: False)

    def save_for_backward(self, *args: Any) -> None:
        """Save ``args``, nested in any way, for backward."""
        self._ctx.saved_for_backward_nesting, tensors = flatten(args, "save_for_backward")
        self._ctx.save_for_backward(*tensors)

    def save_for_forward(self, *tensors: Any) -> None:
        """Save ``tensors``, nested in any way, for jvp."""
        self._ctx.saved_for_jvp_nesting, flat = flatten(tensors, "save_for_forward")
        self._ctx.save_for_forward(*flat)

    def mark_dirty(self, *args: Any, **kwargs: Any) -> None:
        """Mark the tensors in ``args`` and ``kwargs`` as changed in place."""
        self._ctx.mark_dirty(*flatten((args, kwargs), "mark_dirty")[1])

    def mark_non_differentiable(self, *args: Any, **kwargs: Any) -> None:
        """Mark the tensors in ``args`` and ``kwargs``, which the call returns, as not differentiable."""
        self._ctx.mark_non_differentiable(*flatten((args, kwargs), "mark_non_differentiable")[1])


def _is_for_each(result: Any, arguments: tuple[Any, ...]) -> bool:
    """Whether ``result`` is a tuple with an entry for the only argument, rather than that entry itself."""
    if not isinstance(result, tuple) or len(result) != 1:
        return False
    return result[0] is None or isinstance(result[0], torch.Tensor) == isinstance(arguments[0], Slot)


def _take_apart(part: Any, where: str, tensors: list[torch.Tensor]) -> Any:
    """Return the skeleton of ``part``, and append its tensors to ``tensors``.

    (It is not nested in :func:`flatten`: a nested function that calls itself is a reference cycle and would keep the
    tensors alive.)
    """
    if isinstance(part, torch.Tensor):
        tensors.append(part)
        return Slot(len(tensors) - 1)
    if _is_container(part):
        return _rebuild(part, lambda key, inner: _take_apart(inner, f"{where}[{key!r}]", tensors))
    if isinstance(part, _PLAIN):
        return part
    kind = type(part).__qualname__
    raise ValueError(f"{where} is a {kind}, which cannot be nested (tuples, lists and dicts can)")


def _as_dict(values: Any, skeleton: Any, where: str) -> dict[Any, Any]:
    """Return the entries of ``values``, a container like the skeleton, without entries that the skeleton lacks."""
    known = dict(_items(skeleton))
    same_kind = _is_container(values) and isinstance(values, dict) == isinstance(skeleton, dict)
    given = dict(_items(values)) if same_kind else {}
    complete = isinstance(skeleton, dict) or len(given) == len(known)
    if not same_kind or not complete or not given.keys() <= known.keys():
        raise ValueError(f"{where} must be nested like {_shape(skeleton)}, but is {_shape(values)}")
    return given


def _is_container(value: Any) -> bool:
    return isinstance(value, tuple | list | dict) and not isinstance(value, torch.Size)


def _items(container: Any) -> Iterator[tuple[Any, Any]]:
    return iter(container.items()) if isinstance(container, dict) else enumerate(container)


def _rebuild(container: Any, change: Callable[[Any, Any], Any]) -> Any:
    """Return a container of the same type whose entries are ``change(key, entry)``."""
    changed = {key: change(key, inner) for key, inner in _items(container)}
    if isinstance(container, dict):
        fresh = copy(container)  # keeps the attributes of a subclass
        fresh.update(changed)
        return fresh
    if hasattr(container, "_fields"):
        return type(container)(*changed.values())
    return type(container)(list(changed.values()))


def _shape(value: Any) -> str:
    if isinstance(value, dict):
        return f"a {type(value).__qualname__} with keys {list(value)}"
    if _is_container(value):
        return f"a {type(value).__qualname__} of {len(value)}"
    return f"a {type(value).__qualname__}"
