"""Likely causes: the mistake that leads from the expected value to the actual one.

Each cause predicts the actual value. It is named only if what it leaves unexplained is next to nothing: within rounding
in every element, and a small part of the error.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

import torch

from conformance.kit.tensors import to_double

#: How far a prediction may be off, next to a double and at most, and how much of the error it may leave unexplained.
NEAR_DOUBLE, COARSEST, UNEXPLAINED = 1e-5, 1e-2, 0.05
#: Factors are shown as fractions up to this denominator.
DENOMINATOR = 12
#: Orders are looked for along dimensions of at most so many slices, and in tensors of at most so many elements.
ORDERED_SLICES, ORDERED_ELEMENTS = 64, 4096
#: Of at least so many elements their errors tell in which precision they were rounded.
TELLING = 8


def likely_cause(
    actual: Any, expected: Any, alternatives: Mapping[str, Any], terms: Mapping[str, torch.Tensor] | None = None
) -> str:
    """Name the mistake, or return an empty string if the values do not show it.

    ``alternatives`` are wrong values that a test can foresee, by the mistake that leads to them, and are tried first;
    ``terms`` may be missing from the value or added to it, by name.

    >>> likely_cause(torch.tensor([1.0, 2.0]), torch.tensor([2.0, 4.0]), {})
    'the right value times 0.5'
    >>> sliced = torch.tensor([1.0, 2.0])
    >>> likely_cause(sliced, torch.tensor([3.0, 5.0]), {"slice instead of sum": sliced})
    'slice instead of sum'
    """
    if not isinstance(actual, torch.Tensor) or not isinstance(expected, torch.Tensor):
        return ""
    if actual.shape != expected.shape or actual.numel() == 0:
        return ""
    one, other = _wide(actual), _wide(expected)
    for name, wrong in alternatives.items():
        if isinstance(wrong, torch.Tensor) and wrong.shape == actual.shape and bool(_close(one, _wide(wrong)).all()):
            return name
    if not bool(torch.isfinite(one.abs()).all()):
        return "not a number or infinite" if bool(torch.isfinite(other.abs()).all()) else ""
    if not bool(torch.isfinite(other.abs()).all()):
        return ""
    if bool(_close(one, other).all()):
        return f"right to five digits{_rounding(one, other, actual.dtype, torch.float32)}"
    within = _tolerance(actual.dtype)
    causes = itertools.chain(
        _of_the_whole(one, other), _of_a_part(one, other, within), _terms(one, other, terms or {}), _orders(one, other)
    )
    fitting = (name for name, predicted in causes if _explains(predicted, one, other, within))
    return next(fitting, "") or _lost_digits(one, other, actual.dtype)


def _of_the_whole(actual: torch.Tensor, expected: torch.Tensor) -> Iterator[tuple[str, torch.Tensor]]:
    """Explain the actual value by one operation on the whole expected value."""
    if bool((expected != 0).any()):
        yield "all zeros", torch.zeros_like(expected)
    yield "the sign is wrong", -expected
    yield "a complex conjugate is missing or superfluous", expected.conj()
    factor = factor_of(actual, expected)
    if factor is not None:
        yield f"the right value times {_shown(factor)}", factor * expected
    pairs = list(itertools.combinations(range(expected.dim()), 2))
    for one, other in reversed(pairs):
        name = f"dimensions {one} and {other} exchanged" if expected.dim() > 2 else "transposed"
        exchanged = expected.transpose(one, other)
        if exchanged.shape == expected.shape:
            yield ("transposed" if (one, other) == pairs[-1] else name), exchanged
        elif 1 not in (expected.shape[one], expected.shape[other]):
            yield f"{name}, and reshaped", exchanged.reshape(expected.shape)
    if expected.dim() >= 2 and expected.shape[-1] == expected.shape[-2]:
        symmetric = "the symmetric part of the expected value: if the matrix is meant to be symmetric"
        yield f"{symmetric}, symmetrize it in call=", (expected + expected.mH) / 2


def _of_a_part(actual: torch.Tensor, expected: torch.Tensor, within: float) -> Iterator[tuple[str, torch.Tensor]]:
    """Explain an error in some slices, or in some elements, if all others are right."""
    wrong = ~_close(actual, expected, within)
    if bool(wrong.all()) or not bool(wrong.any()):
        return
    sets = [sorted(set(places)) for places in wrong.nonzero().T.tolist()]
    box = torch.zeros_like(wrong)
    box[torch.meshgrid(*map(torch.tensor, sets), indexing="ij")] = True
    slices = ", ".join(map(_slice, sets, wrong.shape)).removesuffix(", :" * (wrong.dim() - 1))
    while slices.endswith(", :"):
        slices = slices.removesuffix(", :")
    for where, mask in ((f"[{slices}]", box), (f"{int(wrong.sum())} of {wrong.numel()} elements", wrong)):
        if bool(mask.all()):
            continue
        one, other = actual[mask], expected[mask]
        factor = factor_of(one, other)
        yield f"zero in {where}, and right elsewhere", torch.where(mask, 0.0, expected)
        if factor is not None:
            yield f"times {_shown(factor)} in {where}, and right elsewhere", torch.where(mask, factor, 1.0) * expected


def _slice(places: list[int], size: int) -> str:
    """Indices along a dimension, as an author would write them.

    >>> _slice([0, 1, 2], 3), _slice([1], 3), _slice([1, 2], 3), _slice([0, 2, 4], 6), _slice([0, 1, 4], 5)
    (':', '1', '1:', '::2', '[0, 1, 4]')
    """
    first, last, step = places[0], places[-1], places[1] - places[0] if len(places) > 1 else 1
    if len(places) == size:
        return ":"
    if len(places) == 1:
        return str(first)
    if places != list(range(first, last + 1, step)):
        return f"[{', '.join(map(str, places))}]" if len(places) <= TELLING else f"{len(places)} places"
    start, end = str(first or ""), "" if last + step >= size else str(last + 1)
    return f"{start}:{end}" + (f":{step}" if step > 1 else "")


def _terms(
    actual: torch.Tensor, expected: torch.Tensor, terms: Mapping[str, torch.Tensor]
) -> Iterator[tuple[str, torch.Tensor]]:
    """Explain the error by one missing or additional term, times a number."""
    for name, given in terms.items():
        term = _wide(given)
        times = factor_of(expected - actual, term)
        if times is not None and not times.is_complex():
            amount = "" if abs(abs(float(times)) - 1) <= NEAR_DOUBLE else f" times {_shown(times.abs())}"
            yield f"{name}{amount} is {'missing' if times > 0 else 'added to it'}", expected - times * term


def _orders(actual: torch.Tensor, expected: torch.Tensor) -> Iterator[tuple[str, torch.Tensor]]:
    """Explain the actual value as the right numbers in other places."""
    for dim, size in enumerate(expected.shape):
        along = f" along dimension {dim}" if expected.dim() > 1 else ""
        if 1 < size <= ORDERED_SLICES:
            for step in range(1, size):
                yield f"shifted by one or more entries{along}", expected.roll(step, dim)
        yield f"in reverse order{along}", expected.flip(dim)
        if 1 < size <= ORDERED_SLICES:
            rows = [torch.view_as_real(one) if one.is_complex() else one for one in (actual, expected)]
            one, other = (row.movedim(dim, 0).reshape(size, -1) for row in rows)
            order = torch.cdist(one, other).argmin(1)
            if order.sort().values.equal(torch.arange(size)):
                places = ", ".join(map(str, order.tolist())) if size <= TELLING else "other places"
                yield f"the right numbers in another order{along}: {places}", expected.index_select(dim, order)
    if 3 <= expected.numel() <= ORDERED_ELEMENTS and not expected.is_complex():
        back = actual.flatten().argsort().argsort()
        yield "the right numbers in another order", expected.flatten().sort().values[back].view(expected.shape)


def _lost_digits(actual: torch.Tensor, expected: torch.Tensor, dtype: torch.dtype) -> str:
    """Detect a value that is right except for rounding to a narrower dtype, on the way or as a whole."""
    if torch.allclose(actual, expected, rtol=1e-2, atol=1e-3):
        rounding = _rounding(actual, expected, dtype, torch.bfloat16, torch.float16)  # what fits the first may fit both
        if rounding:
            return f"right to a few digits{rounding}"
    read = expected != 0
    off = ((actual - expected)[read] / expected[read]) if bool(read.any()) else expected.flatten()
    if off.is_complex() or len(off) < TELLING or bool((off > 0).all()) or bool((off < 0).all()):
        return ""
    for kind in (torch.float16, torch.bfloat16):
        unit = torch.finfo(kind).eps / 2
        is_rounded = float(off.abs().max()) <= 2 * unit and float(off.square().mean().sqrt()) >= 0.2 * unit
        if is_rounded and torch.finfo(dtype).eps < unit:
            return f"right to {_name(kind)} only"
    return ""


def _rounding(actual: torch.Tensor, expected: torch.Tensor, dtype: torch.dtype, *narrower: torch.dtype) -> str:
    """Name the dtype, narrower than their own, that all numbers were rounded to: the right ones do not fit into it."""
    for kind in narrower:
        is_told = dtype.itemsize > kind.itemsize * (2 if dtype.is_complex else 1)
        if is_told and _fits(actual, kind) and not _fits(expected, kind):
            return f": {_name(kind)} on the way"
    return ""


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _fits(tensor: torch.Tensor, dtype: torch.dtype) -> bool:
    parts = torch.view_as_real(tensor) if tensor.dtype.is_complex else tensor
    return bool((parts == parts.to(dtype)).all())


def factor_of(actual: torch.Tensor, expected: torch.Tensor) -> torch.Tensor | None:
    """Return the factor that best maps one to the other; None if it is zero, or fits a single element only."""
    if int((expected != 0).sum()) < 2:
        return None
    unit = expected / expected.abs().max()
    factor = (unit.conj() * actual).sum() / (unit.abs().square().sum() * expected.abs().max())
    if factor.is_complex() and bool(factor.imag.abs() <= NEAR_DOUBLE * factor.abs()):
        factor = factor.real
    return factor if bool(factor != 0) and bool(factor.isfinite()) else None


def _shown(factor: torch.Tensor) -> str:
    """A factor as a fraction if it is one of small numbers.

    >>> _shown(torch.tensor(2 / 3)), _shown(torch.tensor(0.5)), _shown(torch.tensor(3.0)), _shown(torch.tensor(0.123))
    ('2/3', '0.5', '3', '0.123')
    """
    if factor.is_complex():
        return f"{complex(factor):.6g}"
    near = Fraction(float(factor)).limit_denominator(DENOMINATOR)
    is_fraction = near != 0 and abs(float(near) - float(factor)) <= 10 * NEAR_DOUBLE * abs(float(near))
    is_short = is_fraction and float(near) == round(float(near), 3)
    return str(near) if is_fraction and not is_short else f"{float(near) if is_short else float(factor):.6g}"


def _wide(value: torch.Tensor) -> torch.Tensor:
    return to_double(value.detach().cpu())


def _tolerance(dtype: torch.dtype) -> float:
    """Return how far a prediction may be off, relative to the value: differences lose two thirds of the digits."""
    is_exact = not (dtype.is_floating_point or dtype.is_complex)
    return NEAR_DOUBLE if is_exact else min(COARSEST, max(NEAR_DOUBLE, 10 * float(torch.finfo(dtype).eps) ** (2 / 3)))


def _close(one: torch.Tensor, other: torch.Tensor, within: float = NEAR_DOUBLE) -> torch.Tensor:
    kind = torch.promote_types(one.dtype, other.dtype)
    atol = within * float(torch.nan_to_num(other.abs()).max()) * (1e-3 if within == NEAR_DOUBLE else 1.0)
    return torch.isclose(one.to(kind), other.to(kind), rtol=within, atol=atol)


def _explains(predicted: torch.Tensor, actual: torch.Tensor, expected: torch.Tensor, within: float) -> bool:
    """Whether a prediction is the actual value, and nearer to it by far than the expected one."""
    left, error = (actual - predicted).norm(), (actual - expected).norm()
    return bool(left <= UNEXPLAINED * error) and bool(_close(predicted, actual, within).all())
