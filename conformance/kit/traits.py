"""Recognize what a tensor may represent: a permutation, sorted numbers, a symmetric matrix.

Other numbers of the same shape may not be one, and a Function may rely on it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product

import torch

from conformance.kit import tolerances
from conformance.kit.tensors import is_strided, to_double

#: A larger matrix is not asked for its eigenvalues.
LARGEST_DECOMPOSED = 512
#: A row of more whole numbers is not taken for coordinates.
MOST_COORDINATES = 4
ORDERED = ("is sorted", "is sorted downwards")
Trait = tuple[str, int | None]


def missing_traits(value: torch.Tensor, other: torch.Tensor, constant: bool = True) -> set[Trait]:
    """The traits of a tensor that one derived from it does not have.

    Args:
        value: the original.
        other: what was derived from it.
        constant: whether the tensor is not differentiated. What small steps of differences take away, such as that
            numbers are whole or add up to one, counts for such a tensor alone.

    >>> order = torch.tensor([1, 2, 0])
    >>> sorted(missing_traits(order, torch.tensor([1, 2, 0, 1, 2, 0])))
    [('is a permutation', 0), ('is unique', 0)]
    >>> missing_traits(order, torch.tensor([1, 2, 0, 4, 5, 3]))
    set()
    """
    if not (is_strided(value) and is_strided(other)) or value.is_quantized or value.dim() != other.dim():
        return set()
    return traits(value, constant) - traits(other, constant, empty=True)


def traits(value: torch.Tensor, constant: bool = True, empty: bool = False) -> set[Trait]:
    """The traits of a tensor with strides, each with the dimension along which it has it.

    Args:
        value: the tensor.
        constant: whether it is not differentiated.
        empty: whether those count that any tensor with so few elements has.

    >>> sorted(traits(torch.tensor([1, 0]))), traits(torch.tensor([3.5]))
    ([('is a permutation', 0), ('is unique', 0)], set())
    """
    plain = value.detach()
    plain = to_double(plain) if plain.is_floating_point() else plain  # eight bits can be neither negated nor added
    found: set[Trait] = {(name, None) for name in _as_matrix(plain, empty)}
    if plain.dtype.is_complex:
        return found
    plain = plain.to(torch.int64) if plain.dtype is torch.bool else plain
    for dim in range(plain.dim()):
        if empty or (constant and value.dtype is not torch.bool) or _is_rare(plain, dim):
            found |= {(name, dim) for name in _in_order(plain, dim, empty)}
    if not plain.is_floating_point():
        for dim in range(plain.dim()):
            names = set(_as_indices(plain, dim, empty))
            # That of whole numbers in their order is a permutation like any other.
            by_chance = ORDERED if not empty and "is a permutation" in names else ()
            found = (found - {(name, dim) for name in by_chance}) | {(name, dim) for name in names}
            found |= {("names each place once", dim)} if _is_of_places(value, dim, empty) else set()
    if constant:
        found |= {(name, None) for name in _as_numbers(value.detach(), empty)}
        wholes = product(range(plain.dim()), (("adds up to one", 1), ("has a norm of one", 2)))
        found |= {(name, dim) for dim, (name, power) in wholes if _adds_up_to_one(value.detach(), dim, power)}
    return found


def _is_rare(value: torch.Tensor, dim: int) -> bool:
    """Whether random numbers would hardly be sorted: a few often are, and need not be."""
    size = value.shape[dim]
    return size > 1 and value.numel() // size * math.lgamma(size + 1) > math.log(1 / tolerances.CHANCE)


def is_of_one_sign(value: torch.Tensor) -> bool:
    """Tell whether all numbers are positive, or all are negative, and too many of them for chance.

    >>> is_of_one_sign(torch.ones(9)), is_of_one_sign(torch.ones(3)), is_of_one_sign(torch.tensor([1.0, -1.0] * 5))
    (True, False, False)
    """
    if value.is_complex() or 2.0 ** (1 - value.numel()) > tolerances.CHANCE:
        return False
    return bool((value > 0).all()) or bool((value < 0).all())


def _in_order(value: torch.Tensor, dim: int, empty: bool) -> Iterator[str]:
    steps = value.diff(dim=dim)
    if steps.any() or empty:
        if bool((steps >= 0).all()):
            yield "is sorted"
        if bool((steps <= 0).all()):
            yield "is sorted downwards"


def _as_indices(value: torch.Tensor, dim: int, empty: bool) -> Iterator[str]:
    size = value.shape[dim]
    if size < 2 and not empty:
        return
    ordered = value.movedim(dim, -1).sort().values
    if bool((ordered.diff() != 0).all()):
        yield "is unique"
        if torch.equal(ordered, torch.arange(size, dtype=value.dtype, device=value.device).expand(ordered.shape)):
            yield "is a permutation"


def _is_of_places(value: torch.Tensor, dim: int, empty: bool) -> bool:
    """Whether each row of a few coordinates is there once, as those of a sparse matrix are; or each column."""
    if (
        value.dim() != 2
        or value.dtype is torch.bool
        or value.shape[1 - dim] > MOST_COORDINATES
        or (value.shape[dim] < 2 and not empty)
    ):
        return False
    return value.numel() == 0 or value.unique(dim=dim).shape[dim] == value.shape[dim]


def _as_numbers(value: torch.Tensor, empty: bool) -> Iterator[str]:
    if value.numel() == 0 and not empty:
        return
    if value.dtype is torch.bool:
        if bool(value.all()):
            yield "is all true"
        if not value.any():
            yield "is all false"
    elif value.is_floating_point() and bool((to_double(value) == to_double(value).round()).all()):
        yield "is whole"
        if bool(((value == 0) | (value == 1)).all()):
            yield "is a mask"


def _adds_up_to_one(value: torch.Tensor, dim: int, power: int) -> bool:
    """Whether numbers, or their powers, are parts of a whole; of masks whose rows show one element, not of one row."""
    if not value.is_floating_point() and (value.dtype is not torch.bool or value.dim() < 2):
        return False
    sums = to_double(value).pow(power).sum(dim)
    return torch.allclose(sums, torch.ones_like(sums), rtol=1e-3 if value.dtype.itemsize < 4 else 1e-6)


def _as_matrix(value: torch.Tensor, empty: bool) -> Iterator[str]:
    if value.dim() < 2 or (value.numel() == 0 and not empty):
        return
    rows, columns = value.shape[-2:]
    if value.numel() == 0 or rows == columns == 1:
        if empty:
            yield from ("is symmetric", "is antisymmetric", "is lower triangular", "is upper triangular")
        if empty and (value.numel() == 0 or bool((value.real > 0).all())):
            yield "is positive definite"
    elif rows == columns:
        if is_symmetric(value):
            yield "is symmetric"
        if value.dtype is not torch.bool and torch.equal(value, -value.mH):
            yield "is antisymmetric"
        if not value.triu(1).any():
            yield "is lower triangular"
        if not value.tril(-1).any():
            yield "is upper triangular"
        if is_definite(value):
            yield "is positive definite"


def is_symmetric(value: torch.Tensor) -> bool:
    """Whether a tensor is a symmetric or Hermitian matrix, or several.

    >>> is_symmetric(torch.eye(2)), is_symmetric(torch.ones(2, 2).triu())
    (True, False)
    """
    return _is_square(value) and torch.equal(value, value.mH)


def symmetric_like(value: torch.Tensor, direction: torch.Tensor) -> torch.Tensor:
    """Return the symmetric part of a direction if the value is symmetric, or Hermitian; otherwise the direction.

    >>> symmetric_like(torch.eye(2), torch.tensor([[1.0, 2.0], [4.0, 1.0]]))
    tensor([[1., 3.],
            [3., 1.]])
    """
    return (direction + direction.mH) / 2 if is_symmetric(value) else direction


def is_definite(value: torch.Tensor) -> bool:
    """Whether a tensor is a symmetric or Hermitian matrix, but for rounding, with positive eigenvalues; or several.

    >>> is_definite(torch.eye(2)), is_definite(torch.ones(2, 2))
    (True, False)
    """
    numeric = value.is_floating_point() or value.is_complex()
    if (
        not numeric
        or not _is_square(value)
        or value.shape[-1] > LARGEST_DECOMPOSED
        or not torch.allclose(value, value.mH)
    ):
        return False
    eigenvalues = torch.linalg.eigvalsh(to_double(value.detach()))
    return bool((eigenvalues[..., 0] > 0).all())


def has_independent_columns(value: torch.Tensor) -> bool:
    """Whether the first columns of each matrix, as many as it has rows, are independent of each other.

    >>> has_independent_columns(torch.eye(2, 3)), has_independent_columns(torch.ones(3, 2))
    (True, False)
    """
    first = to_double(value.detach())[..., : value.shape[-2]] if value.dim() > 1 else value
    return value.dim() < 2 or bool((torch.linalg.matrix_rank(first) == first.shape[-1]).all())


def _is_square(value: torch.Tensor) -> bool:
    is_square = is_strided(value) and value.dim() >= 2 and value.shape[-1] == value.shape[-2] > 1
    return is_square and value.numel() > 0
