"""Tensors and their memory: freed storages, sparse tensors, equal values."""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import c_char
from typing import Any, TypeGuard
from zlib import crc32

import torch
from torch.utils import _pytree as pytree

__all__ = ["differentiable", "is_strided", "many", "same_values", "share_memory"]


def is_strided(tensor: torch.Tensor) -> bool:
    """Whether a tensor has strides: sparse tensors have none.

    Args:
        tensor: the tensor.

    >>> is_strided(torch.eye(2)), is_strided(torch.eye(2).to_sparse())
    (True, False)
    """
    return bool(tensor.layout is torch.strided)


def dense(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor itself, or a sparse one written out.

    >>> dense(torch.eye(2).to_sparse()).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    return tensor if is_strided(tensor) else tensor.to_dense()


def fingerprint(tensor: torch.Tensor) -> list[object]:
    """Return a fingerprint by which ranks recognize different tensors: shapes, and whole numbers.

    Of what can be differentiated the shape alone: its values are made to differ, or to agree, by their type.

    >>> fingerprint(torch.tensor([1, 2])) == fingerprint(torch.tensor([2, 1])), fingerprint(torch.ones(2))
    (False, [[2]])
    """
    shape: list[object] = [list(tensor.shape)]
    if differentiable(tensor) or not is_strided(tensor) or tensor.is_quantized:
        return shape
    return [*shape, digest(tensor)]


def digest(tensor: torch.Tensor) -> int:
    """Return a hash of the elements of a strided tensor, bit for bit.

    >>> digest(torch.ones(2)) == digest(torch.ones(4)[::2]), digest(torch.ones(2)) == digest(torch.ones(2).double())
    (True, False)
    """
    plain = tensor.detach().resolve_conj().resolve_neg().cpu().contiguous()
    return crc32((c_char * plain.nbytes).from_address(plain.data_ptr())) if plain.numel() else 0


def differing_places(ranks: Sequence[Sequence[object]]) -> frozenset[int]:
    """Indices of tensors whose fingerprints differ between ranks.

    >>> differing_places([[1, 2], [1, 3]])
    frozenset({1})
    """
    return frozenset(at for at, told in enumerate(zip(*ranks, strict=True)) if any(one != told[0] for one in told))


def strided_parts(tensor: torch.Tensor | None) -> tuple[torch.Tensor, ...]:
    """The tensors with strides that a tensor consists of: itself, or the indices and values of a sparse one.

    >>> [part.tolist() for part in strided_parts(torch.tensor([0.0, 2.0]).to_sparse())]
    [[[1]], [2.0]]
    """
    if tensor is None:
        return ()
    if tensor.layout is torch.sparse_coo:
        return tensor._indices(), tensor._values()
    if tensor.layout in {torch.sparse_csr, torch.sparse_bsr}:
        return tensor.crow_indices(), tensor.col_indices(), tensor.values()
    if tensor.layout in {torch.sparse_csc, torch.sparse_bsc}:
        return tensor.ccol_indices(), tensor.row_indices(), tensor.values()
    return (tensor,)


def differentiable(value: object) -> TypeGuard[torch.Tensor]:
    """Whether something is a tensor of a dtype that can have a gradient: PyTorch adds nothing up in eight bits.

    Args:
        value: any value.

    >>> differentiable(torch.tensor(1.0)), differentiable(torch.tensor(1)), differentiable(1.0)
    (True, False, False)
    """
    if not isinstance(value, torch.Tensor):
        return False
    return value.is_complex() or (value.is_floating_point() and value.itemsize > 1)


def double_dtype(*dtypes: torch.dtype) -> torch.dtype:
    """The dtype of double precision that holds numbers of all these; eight-bit floats promote to none in PyTorch.

    >>> double_dtype(torch.float8_e4m3fn, torch.float32), double_dtype(torch.float32, torch.complex64)
    (torch.float64, torch.complex128)
    """
    return torch.complex128 if any(dtype.is_complex for dtype in dtypes) else torch.float64


def to_double(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor written out in double precision; a complex one stays complex."""
    return dense(tensor).to(double_dtype(tensor.dtype))


def shares_elements(tensor: torch.Tensor) -> bool:
    """Whether several elements are one number in memory, as those of an expanded tensor are.

    >>> shares_elements(torch.ones(1, 2).expand(3, 2)), shares_elements(torch.ones(3, 2).mT)
    (True, False)
    """
    return any(stride == 0 and size > 1 for size, stride in zip(tensor.shape, tensor.stride(), strict=True))


def stored_values(tensor: torch.Tensor) -> torch.Tensor:
    """The strided tensor that holds a tensor's elements: the tensor itself, or the values of a sparse one."""
    if is_strided(tensor):
        return tensor
    return tensor._values() if tensor.layout is torch.sparse_coo else tensor.values()


def address(tensor: torch.Tensor) -> int | None:
    """Return the address of a tensor's storage; None if it has none of its own, as a wrapper subclass."""
    try:
        return int(tensor.untyped_storage().data_ptr())
    except RuntimeError:
        return None


def share_memory(one: object, other: object) -> bool:
    """Whether two values are tensors over one storage.

    Args:
        one: any value.
        other: any value.

    >>> x = torch.zeros(4)
    >>> share_memory(x, x[:2]), share_memory(x, x.clone()), share_memory(x, 1.5)
    (True, False, False)
    """
    if not (isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor)):
        return False
    return address(one) is not None and address(one) == address(other)


def overlap(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two tensors have a number in common in memory.

    >>> x = torch.zeros(4, 2)
    >>> overlap(x[:, 0], x[1]), overlap(x[:, 0], x[:, 1]), overlap(x[0], x[1].view(torch.uint8))
    (True, False, False)
    >>> overlap(torch.empty(0), torch.empty(0, dtype=torch.double))
    False
    """
    if not share_memory(one, other):
        return False
    held = torch.zeros(one.untyped_storage().nbytes(), dtype=torch.bool, device="cpu")
    _bytes_of(one, held).fill_(True)
    return bool(_bytes_of(other, held).any())


def _bytes_of(tensor: torch.Tensor, held: torch.Tensor) -> torch.Tensor:
    """The part of a storage that a tensor has; ``held`` has one element for each byte."""
    size = tensor.element_size()
    strides = [size * stride for stride in tensor.stride()]
    return held.as_strided((*tensor.shape, size), (*strides, 1), size * tensor.storage_offset())


def freed(tensor: torch.Tensor) -> bool:
    """Whether a tensor's storage has been freed, as by a Function that frees its input.

    Reading such a tensor reads memory of others, or crashes.

    >>> freed(torch.ones(3))
    False
    """
    if not is_strided(tensor) or tensor.numel() == 0:
        return False
    try:
        held = tensor.untyped_storage().nbytes()
        places = zip(tensor.shape, tensor.stride(), strict=True)
    except (RuntimeError, NotImplementedError):
        return False  # a subclass or a tensor of torch.func, which owns no storage
    last = tensor.storage_offset() + sum((size - 1) * stride for size, stride in places)
    return bool(held < (last + 1) * tensor.element_size())


def same_values(old: torch.Tensor, new: torch.Tensor) -> bool:
    """Whether two tensors hold the same values; NaN equals NaN.

    Args:
        old: a copy made earlier.
        new: the tensor now, whose memory may have been freed.

    >>> same_values(torch.tensor([1.0, float("nan")]), torch.tensor([1.0, float("nan")]))
    True
    """
    new = new.detach()
    if freed(new):
        return False
    if old.shape != new.shape or old.dtype != new.dtype:
        return False
    old, new = dense(old), dense(new)
    return bool(torch.equal(old, new)) or bool(((old == new) | (old.isnan() & new.isnan())).all())


def form_of(tensor: torch.Tensor) -> tuple[object, ...]:
    """Return what tensors have in common if one can stand for the other: type, layout, shape, dtype and device."""
    return type(tensor), tensor.layout, tensor.shape, tensor.dtype, tensor.device


def largest_finite(tensor: torch.Tensor) -> float:
    """Return the largest absolute value that is finite, or 0.0 if there is none.

    >>> largest_finite(torch.tensor([1.0, -3.0, float("inf"), float("nan")]))
    3.0
    """
    return float(tensor.abs().nan_to_num(posinf=0.0).max()) if tensor.numel() else 0.0


def with_attributes(copy: torch.Tensor, original: torch.Tensor) -> torch.Tensor:
    """Return a copy with the attributes that a caller set on the original, such as ``main_grad``.

    >>> x = torch.ones(2)
    >>> x.main_grad = torch.zeros(2)
    >>> with_attributes(x.clone(), x).main_grad
    tensor([0., 0.])
    """
    if type(original) in {torch.Tensor, torch.nn.Parameter}:
        copy.__dict__.update(vars(original))
    return copy


def tensor_leaves(tree: Any) -> list[torch.Tensor]:
    """Return the tensors in a nested container, in order.

    >>> tensor_leaves({"sum": (torch.tensor(1.0), 2), "rest": [torch.tensor(3.0)]})
    [tensor(1.), tensor(3.)]
    """
    return [leaf for leaf in pytree.tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def many(returned: Any) -> tuple[Any, ...]:
    """Return a static method's result as a tuple; a single value counts as one.

    Args:
        returned: what it returned.

    >>> many(3)
    (3,)
    """
    return returned if isinstance(returned, tuple) else (returned,)


def is_arrangeable(value: Any) -> bool:
    """Whether a value is a tensor whose elements could have another layout and other numbers."""
    ordinary = type(value) in {torch.Tensor, torch.nn.Parameter} and value.layout == torch.strided
    return ordinary and differentiable(value)
