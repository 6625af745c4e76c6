"""Nested values: taken apart into a flat list of tensors and a skeleton, put together again, and kept on a ctx.

A skeleton is the nested value with a :class:`Slot` where each tensor was. It holds no tensor, so it may be
kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from enum import Enum
from types import BuiltinFunctionType, EllipsisType, FunctionType, NoneType
from typing import Any

import torch

# What may stand beside tensors. Anything else might hold tensors that nobody would find, whose gradients would be
# lost without a word.
_PLAIN = (
    *(NoneType, bool, int, float, complex, str, bytes, Enum, slice, range, EllipsisType),
    *(type, FunctionType, BuiltinFunctionType),
    *(torch.dtype, torch.device, torch.layout, torch.memory_format, torch.Size, torch.Generator),
)


@dataclass(frozen=True)
class Slot:
    """Where a tensor was: its place in the flat list."""

    index: int


def flatten(value: Any, where: str) -> tuple[Any, list[torch.Tensor]]:
    """Split ``value`` into a skeleton and its tensors.

    Args:
        value: Tensors in tuples, lists, named tuples and dicts, with plain values and None beside them.
        where: What to call ``value`` in an error.

    Returns:
        The skeleton, and the tensors in the order in which they stand.

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
    """Put a nested value together again.

    Args:
        skeleton: What :func:`flatten` made.
        values: What to put in the slots.
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

    None may stand for a whole branch, and a dict may leave keys out.

    Raises:
        ValueError: ``values`` is nested in another way; the message says where.

    Example:
        >>> from spec_impl.nesting import Slot, align
        >>> list(align((None, {}), ([Slot(0), Slot(1)], {"a": Slot(2)}), "gradients"))
        [None, None, None]
    """
    if isinstance(skeleton, Slot):
        if not isinstance(values, torch.Tensor | NoneType):
            raise ValueError(f"{where} must be a tensor or None, and is {_shape(values)}")  # noqa: TRY004
        yield values
    elif _is_container(skeleton):
        known = dict(_items(skeleton))
        given = dict.fromkeys(known) if values is None else _as_dict(values, skeleton, where)
        for key, inner in known.items():
            yield from align(given.get(key), inner, f"{where}[{key!r}]")
    elif values is not None:
        raise ValueError(f"{where} must be None: there is no tensor there to have a gradient or a tangent")


def nothing(_: Any) -> None:
    """Return None, which stands for a plain value among gradients and tangents."""


def spread(gradients: Any) -> tuple[Any, ...]:
    """One argument for each entry of a tuple or list; one in all for anything else."""
    return tuple(gradients) if isinstance(gradients, tuple | list) else (gradients,)


def align_gradients(result: Any, arguments: tuple[Any, ...], where: str) -> tuple[torch.Tensor | None, ...]:
    """The gradients in ``result`` in the order of the arguments' tensors; it may stand alone for one argument."""
    if len(arguments) == 1 and not _is_for_each(result, arguments):
        result = (result,)
    return tuple(align(result, arguments, where))


class NestedContext:
    """A ctx whose methods take nested values; everything else is the engine's ctx."""

    def __init__(self, ctx: Any, derivative: str = "backward") -> None:
        """Wrap ``ctx`` while backward is computed, or the ``derivative`` that is named."""
        vars(self).update(_ctx=ctx, _derivative=derivative)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ctx, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._ctx, name, value)

    @property
    def saved_tensors(self) -> Any:
        """The values that were saved for the derivative that is being computed."""
        return unflatten(getattr(self._ctx, f"saved_for_{self._derivative}_nesting"), self._ctx.saved_tensors)

    @property
    def needs_input_grad(self) -> Any:
        """Whether each tensor among the arguments needs a gradient; False for other values."""
        needed = self._ctx.needs_input_grad[1:]
        return unflatten(self._ctx.call.arguments, needed, beside=lambda _: False)

    def save_for_backward(self, *args: Any) -> None:
        """Save the values in ``args`` for the gradient."""
        self._ctx.saved_for_backward_nesting, tensors = flatten(args, "save_for_backward")
        self._ctx.save_for_backward(*tensors)

    def save_for_forward(self, *tensors: Any) -> None:
        """Save the values in ``tensors`` for forward mode."""
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
    """The skeleton of ``part``, whose tensors are appended to ``tensors``.

    (No function inside :func:`flatten`: one that calls itself is a cycle, and would keep the tensors.)
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
    """The entries of ``values``, if it is a container like the skeleton with no entry that the skeleton lacks."""
    known = dict(_items(skeleton))
    same_kind = _is_container(values) and isinstance(values, dict) == isinstance(skeleton, dict)
    given = dict(_items(values)) if same_kind else {}
    complete = isinstance(skeleton, dict) or len(given) == len(known)
    if not same_kind or not complete or not given.keys() <= known.keys():
        raise ValueError(f"{where} must be nested like {_shape(skeleton)}, and is {_shape(values)}")
    return given


def _is_container(value: Any) -> bool:
    return isinstance(value, tuple | list | dict) and not isinstance(value, torch.Size)


def _items(container: Any) -> Iterator[tuple[Any, Any]]:
    return iter(container.items()) if isinstance(container, dict) else enumerate(container)


def _rebuild(container: Any, change: Callable[[Any, Any], Any]) -> Any:
    """A container of the same type whose entries are ``change(key, entry)``."""
    changed = {key: change(key, inner) for key, inner in _items(container)}
    if isinstance(container, dict):
        fresh = copy(container)  # keeps what a subclass has besides its entries
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
