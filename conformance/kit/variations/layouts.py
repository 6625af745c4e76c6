"""Derive samples in other layouts: transposed, sliced, cut out, expanded. A subject may refuse them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from conformance.kit import tolerances
from conformance.kit.calls import Run, SampleCall
from conformance.kit.modes import OperationMode, carry_out
from conformance.kit.tensors import (
    differentiable,
    is_arrangeable,
    is_strided,
    same_values,
    shares_elements,
    tensor_leaves,
)

Arrange = Callable[[torch.Tensor], torch.Tensor]
#: What fills memory between elements, where a Function that ignores strides would find it.
JUNK = 7.0


def _transposed(value: torch.Tensor) -> torch.Tensor:
    return value.mT.contiguous().mT if value.dim() > 1 else value.contiguous()


def _sliced(value: torch.Tensor) -> torch.Tensor:
    if value.dim() == 0:
        return torch.stack([torch.full_like(value, JUNK), value])[1]
    wide = value.new_full((*value.shape[:-1], 2 * value.shape[-1] + 1), JUNK)
    wide[..., 1::2] = value
    return wide[..., 1::2]


def cut_out(value: torch.Tensor) -> torch.Tensor:
    """Copy values to the end of a longer buffer: contiguous with an offset, as rows and parts of a cat are.

    >>> cut_out(torch.zeros(2, 3)).is_contiguous(), cut_out(torch.zeros(2, 3)).storage_offset()
    (True, 3)
    """
    if value.dim() == 0:
        return _sliced(value)
    long = value.new_full((1 + value.shape[0], *value.shape[1:]), JUNK)
    long[1:] = value
    return long[1:]


def channels_last(value: torch.Tensor) -> torch.Tensor:
    """Copy images and volumes into channels-last memory; other tensors unchanged.

    >>> channels_last(torch.zeros(1, 2, 3, 4)).is_contiguous(memory_format=torch.channels_last)
    True
    """
    return value.movedim(1, -1).contiguous().movedim(-1, 1) if value.dim() > 3 else value


def _expanded(value: torch.Tensor) -> torch.Tensor:
    return _with_room(value[:1], value.shape) if value.dim() and value.shape[0] else value


def _expanded_from_one(value: torch.Tensor) -> torch.Tensor:
    return _with_room(value.reshape(-1)[:1].sum(), value.shape)


def _with_room(part: torch.Tensor, shape: Sequence[int]) -> torch.Tensor:
    """Expand a tensor, with memory behind it for all elements: some read and write there as if it were contiguous.

    >>> _with_room(torch.ones(1), [3]).untyped_storage().nbytes()
    12
    """
    memory = part.new_full((max(1, math.prod(shape)),), JUNK)
    start = memory[: part.numel()].view(part.shape)
    start.copy_(part)
    return start.expand(shape)


#: Ways to lay out an input. All but an expanded one keep its numbers: see :func:`with_layout_values`.
LAYOUTS: dict[str, Arrange] = {
    "contiguous": lambda value: value.clone(memory_format=torch.contiguous_format),
    "transposed in memory": _transposed,
    "sliced out of wider memory": _sliced,
    "cut out of longer memory": cut_out,
    "channels last": channels_last,
    "expanded along the first dimension": _expanded,
}
#: Ways to lay out an incoming gradient, which may be all one number, as that of a sum is.
GRADIENT_LAYOUTS: dict[str, Arrange] = {
    **LAYOUTS,
    "expanded from one number": _expanded_from_one,
}


class _Laid(torch.autograd.Function):
    """Return a copy in another layout that is not a view."""

    @staticmethod
    def forward(ctx: Any, value: torch.Tensor, arrange: Arrange) -> torch.Tensor:
        arranged = arrange(value.detach())
        place = arranged.storage_offset(), arranged.shape, arranged.stride()
        return torch.empty(0, dtype=value.dtype, device=value.device).set_(arranged.untyped_storage(), *place)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None]:
        return grad, None


def in_other_layout(value: torch.Tensor, arrange: Arrange) -> torch.Tensor:
    """Copy a tensor into another layout, so that gradients flow back."""
    laid: torch.Tensor = _Laid.apply(value, arrange)
    return laid


def changes(sample: SampleCall, arrange: Arrange) -> bool:
    """Tell whether another layout changes the strides or offset of any tensor of a sample."""
    tensors = [sample.values[at].detach() for at in arranged(sample)]
    return any(lies_otherwise(arrange(value), value) for value in tensors)


def arranged(sample: SampleCall) -> list[int]:
    """Return the positions of the tensors whose layout can be changed; a module's own parameters keep theirs."""
    return [at for at, value in enumerate(sample.values) if is_arrangeable(value) and at not in sample.of_modules]


def lies_otherwise(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Tell whether two tensors differ in strides or storage offset."""
    return (one.stride(), one.storage_offset()) != (other.stride(), other.storage_offset())


def with_layout_values(sample: SampleCall, arrange: Arrange) -> SampleCall:
    """Return the sample with the values that a layout leaves: an expanded tensor has its first row in all rows."""
    laid = {at: arrange(sample.values[at].detach()) for at in arranged(sample)}
    return sample.having({at: value.contiguous() for at, value in laid.items() if shares_elements(value)})


def in_layout(sample: SampleCall, arrange: Arrange) -> Run:
    """Call the subject in another layout; the values are those of a :func:`with_layout_values` sample."""
    leaves = {at: sample.values[at].detach().clone().requires_grad_() for at in sample.active}

    def argument(at: int, value: Any) -> Any:
        if not isinstance(value, torch.Tensor) or at in sample.of_modules:
            return value
        plain = leaves.get(at, value.detach())
        return in_other_layout(plain, arrange) if is_arrangeable(value) else plain.clone()

    return sample.called_with([argument(at, value) for at, value in enumerate(sample.values)], leaves)


def writes_into_shared(run: Run, arrange: Arrange) -> bool:
    """Whether a call modified an argument that a layout would expand: writing to expanded memory is undefined."""
    return any(
        shares_elements(arrange(value.detach())) and not same_values(value.detach(), run.values[at])
        for at, value in ((at, run.sample.values[at]) for at in arranged(run.sample))
    )


class MisreadMode(OperationMode):
    """Records operations of PyTorch itself whose results differ between expanded and contiguous tensors.

    PyTorch 2.13's median along a dimension is one, on the CPU: a Function that calls it is not at fault.
    """

    def look(self, function: Any, given: tuple[Any, Any], result: Any) -> None:
        """Call an operation again with contiguous copies."""
        if _is_of_values_alone(function) and any(map(_is_expanded, pytree.tree_leaves(given))):
            plain = pytree.tree_map(lambda x: x.contiguous() if _is_expanded(x) else x, given)
            if not _alike(result, carry_out(function, *plain)):
                self.found.append(str(function))


class MetaLayoutMode(OperationMode):
    """Records operations of PyTorch itself whose results have other strides on the meta device.

    PyTorch 2.13 returns eigenvectors in column order on the CPU, and in row order on the meta device.
    """

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call an operation, and before that on the meta device."""
        there = self._strides_there(function, args, kwargs or {})
        result = carry_out(function, args, kwargs)
        if there is not None and there != _strides_of(result):
            self.found.append(str(function))
        return result

    def _strides_there(self, function: Any, args: Any, kwargs: Any) -> list[tuple[int, ...] | None] | None:
        if function.namespace != "aten" or not tensor_leaves(args):
            return None
        try:
            return _strides_of(carry_out(function, *pytree.tree_map(_without_memory, (args, kwargs))))
        except Exception:  # it looks at the values
            return None


class MixingMode(OperationMode):
    """Records operations of PyTorch itself that accept meta tensors together with others, and return others.

    PyTorch 2.13 multiplies a CPU matrix by a meta one, and returns a CPU tensor. Only tensors from outside count: one
    made during the call could have been made on the right device.
    """

    def __init__(self) -> None:
        super().__init__()
        self._made: dict[int, torch.Tensor] = {}  # by identity; kept, so that no other object gets that of one

    def look(self, function: Any, given: tuple[Any, Any], result: Any) -> None:
        """Record which tensors were made during the call, and the operation if it mixes others with meta tensors."""
        taken, returned = tensor_leaves(given[0]), tensor_leaves(result)
        if all(tensor.is_meta or id(tensor) in self._made for tensor in taken):
            self._made |= {id(tensor): tensor for tensor in returned}
        elif any(tensor.is_meta for tensor in taken) and not all(tensor.is_meta for tensor in returned):
            self.found.append(str(function))


def _without_memory(value: Any) -> Any:
    if not isinstance(value, torch.Tensor) or not is_strided(value):
        return value
    return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="meta")


def _strides_of(tree: Any) -> list[tuple[int, ...] | None]:
    return [telling_strides(tensor) for tensor in tensor_leaves(tree)]


def telling_strides(tensor: torch.Tensor) -> tuple[int, ...] | None:
    """Return the strides of dimensions with more than one element, the only ones that matter; None if there are none.

    >>> telling_strides(torch.zeros(2, 1, 3)), telling_strides(torch.zeros(0, 3))
    ((3, 1), None)
    """
    if not is_strided(tensor) or tensor.numel() < 2:
        return None
    return tuple(stride for stride, size in zip(tensor.stride(), tensor.shape, strict=True) if size > 1)


def _is_of_values_alone(function: Any) -> bool:
    """Whether an operation of PyTorch itself returns only what its values determine: no view, no random or empty
    memory.
    """
    aliases = any(returned.alias_info for returned in function._schema.returns)
    drawn = torch.Tag.nondeterministic_seeded in function.tags
    return function.namespace == "aten" and not (aliases or drawn or "empty" in function._opname)


def _is_expanded(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and is_strided(value) and shares_elements(value)


def _alike(one: Any, other: Any) -> bool:
    """Whether floating-point results agree; the index of one of several equal maxima may depend on the layout."""
    pairs = zip(pytree.tree_leaves(one), pytree.tree_leaves(other), strict=True)
    return all(torch.allclose(a, b, rtol=tolerances.ABOUT_RTOL, equal_nan=True) for a, b in pairs if differentiable(a))


def read_in_order(sample: SampleCall, arrange: Arrange) -> SampleCall | None:
    """Return the values read by code that assumes contiguous memory; None if the memory is too short."""
    laid = {at: arrange(sample.values[at].detach()) for at in arranged(sample)}
    if any(x.storage_offset() + x.numel() > x.untyped_storage().size() // x.element_size() for x in laid.values()):
        return None
    return sample.having({at: in_order(x).clone() for at, x in laid.items()})


def in_order(tensor: torch.Tensor) -> torch.Tensor:
    """Read a tensor's memory in order from its first element, in its shape."""
    strides = torch.empty(tensor.shape, device="meta").stride()
    return tensor.as_strided(tensor.shape, strides, tensor.storage_offset())
