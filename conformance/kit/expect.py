"""Comparisons for test bodies: each holds, or raises :class:`Deviation` with the actual and the expected value."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch

from conformance.kit import tolerances
from conformance.kit.deviations import Deviation, NotApplicable, Skipped
from conformance.kit.diagnosis import likely_cause
from conformance.kit.display import alike_in_double, beyond_start, shown, shown_apart, where_apart
from conformance.kit.frames import told
from conformance.kit.judgement import ELSEWHERE, Judgement, percent
from conformance.kit.tensors import dense, differentiable, largest_finite

__all__ = ["agrees", "alike", "beyond_start", "close", "equal", "no_error", "raises", "shown", "shown_apart", "that"]

_STILL_RUNNING = "asynchronous work is still running and changes it: wait for it"


def that(condition: object, what: str, actual: object = None, expected: object = None, likely: str = "") -> None:
    """Assert that a condition holds.

    Args:
        condition: the condition.
        what: the condition in words, for the message.
        actual: a value to show beside it, or words for it.
        expected: what that value should be, or words for it.
        likely: the likely cause of a failure.

    Raises:
        Deviation: it does not hold.

    >>> that(1 + 1 == 2, "arithmetic works")
    """
    if not condition:
        raise Deviation(what, _worded(actual), _worded(expected), likely)


def _worded(value: object) -> str | None:
    return value if value is None or type(value) is str else shown(value)


def equal(actual: Any, expected: Any, what: str, alternatives: Mapping[str, Any] | None = None) -> None:
    """Assert that two values are the same bit for bit: type, shape, dtype and elements; NaN equals NaN.

    Args:
        actual: a tensor, or any plain value.
        expected: what it should be.
        what: what is being compared, for the message.
        alternatives: wrong values worth naming, by the mistake that leads to them.

    Raises:
        Deviation: with both values.

    >>> equal(torch.ones(2), torch.ones(2), "two ones")
    """
    if not isinstance(expected, torch.Tensor):
        that(type(actual) is type(expected) and actual == expected, what, shown(actual), shown(expected))
        return
    _same_shape(actual, expected, what)
    that(actual.dtype == expected.dtype, f"{what}: dtype", actual.dtype, expected.dtype)
    that(actual.device == expected.device, f"{what}: device", actual.device, expected.device)
    if not _same_bits(actual, expected):
        _deviate(actual, expected, what, alternatives)


def close(
    actual: Any,
    expected: torch.Tensor,
    what: str,
    *,
    rtol: float | None = None,
    atol: float | None = None,
    precision: float = 0.0,
    alternatives: Mapping[str, Any] | None = None,
    likely: str | Callable[[], str] = "",
) -> None:
    """Assert that two tensors are the same number for number, within a tolerance that the message names.

    Args:
        actual: a tensor of the same shape; its dtype may be another.
        expected: what it should be.
        what: what is being compared, for the message.
        rtol: relative tolerance; 64 times the epsilon of the coarser dtype if None. Zero means zero.
        atol: absolute tolerance; if None the same times the largest number, or times one: a sum rounds with its terms.
        precision: the machine epsilon that they were computed in, if their dtypes promise a finer one.
        alternatives: wrong values worth naming, by the mistake that leads to them.
        likely: the likely cause of a failure; one that takes a test of its own is a function, called then.

    Raises:
        Deviation: with both values, and where they differ most.

    >>> close(torch.tensor(1.0), torch.tensor(1.0 + 1e-9, dtype=torch.float64), "one")
    """
    _same_shape(actual, expected, what)
    one, other = alike_in_double(actual, expected)
    allowed, largest = max(_tolerance(actual.dtype), _tolerance(expected.dtype)), largest_finite(other)
    rtol = allowed if rtol is None else rtol
    atol = allowed * max(1.0, largest) if atol is None else atol
    if precision:
        atol = max(atol, tolerances.SAME_ROUNDINGS * precision * largest)
    if not torch.allclose(one, other, rtol=rtol, atol=atol, equal_nan=True):
        now = alike_in_double(actual, expected)
        if torch.allclose(*now, rtol=rtol, atol=atol, equal_nan=True):
            raise Deviation(
                f"{what} differed when it was compared, and changed since", actual, expected, _STILL_RUNNING
            )
        _deviate(actual, expected, what, alternatives, likely, f" (rtol {rtol:.2g}, atol {atol:.2g})")


def agrees(judgement: Judgement, what: str) -> None:
    """Assert that an oracle does not judge a gradient to be wrong.

    Args:
        judgement: what it says.
        what: whose gradient that is, for the message.

    Raises:
        Deviation: it differs; with the error, and the smallest error that would have been detected.

    >>> agrees(Judgement("agrees", "adjoint identity", resolution=0.01), "gradient of input 0")
    """
    if judgement.verdict != "differs":
        return
    by = f"{judgement.oracle}, {judgement.calls} calls"
    where, size = "along its own direction", f"{1 + judgement.error:.9g} times the expected size"
    right = f"the expected size, to {percent(judgement.resolution)}"
    if judgement.rule == ELSEWHERE or judgement.may_be_meant:
        size = f"off by {percent(abs(judgement.error))} of its size"
    if judgement.rule == ELSEWHERE:
        where, right = ELSEWHERE, f"off by less than {percent(judgement.elsewhere)}"
    raise Deviation(f"{what}, {where}", size, f"{right} ({by})", judgement.likely)


@contextmanager
def no_error(what: str, expected: str, likely: Callable[[Exception], str] = lambda error: "") -> Iterator[None]:
    """Assert that a block raises nothing.

    Args:
        what: what the block does, for the message.
        expected: the expected result.
        likely: gives the likely cause of an exception.

    Raises:
        Deviation: it raises something; with type and text of that.

    >>> with no_error("a sum", "a number"):
    ...     total = 1 + 1
    """
    try:
        yield
    except (Deviation, NotApplicable, Skipped):
        raise
    except Exception as error:
        raise Deviation(what, told(error), expected, likely(error)) from error


def raises(
    types: type[BaseException] | tuple[type[BaseException], ...],
    function: Callable[[], object],
    what: str,
    match: str = "",
) -> BaseException:
    """Assert that a call raises, and return the exception.

    Args:
        types: an exception's class, or several.
        function: what is called, without arguments.
        what: what should raise an error, for the message.
        match: a part of the exception's text, in any case of letters.

    Raises:
        Deviation: it raises nothing, or something else.

    >>> error = raises(ZeroDivisionError, lambda: 1 / 0, "dividing by zero raises")
    """
    wanted = types if isinstance(types, tuple) else (types,)
    names = " or ".join(kind.__name__ for kind in wanted) + (f" with {match!r} in its text" if match else "")
    try:
        value = function()
    except wanted as error:
        that(match.lower() in str(error).lower(), what, told(error), names)
        return error
    except Exception as error:
        raise Deviation(what, told(error), names) from error
    raise Deviation(what, f"no exception; it returned {shown(value)}", names)


def alike(actual: torch.Tensor, expected: torch.Tensor) -> bool:
    """Whether two tensors are the same up to rounding.

    Args:
        actual: a tensor.
        expected: the tensor that it should be like.

    >>> alike(torch.ones(2), torch.ones(2) + 1e-9), alike(torch.ones(2), torch.ones(3))
    (True, False)
    """
    try:
        close(actual, expected, "")
    except Deviation:
        return False
    return True


def _same_shape(actual: Any, expected: torch.Tensor, what: str) -> None:
    that(isinstance(actual, torch.Tensor), f"{what} is a tensor", actual, expected)
    that(actual.shape == expected.shape, f"{what}: shape", tuple(actual.shape), tuple(expected.shape))


def _same_bits(actual: torch.Tensor, expected: torch.Tensor) -> bool:
    one, other = dense(actual.detach()), dense(expected.detach())
    if differentiable(one):
        return bool(torch.allclose(one, other, rtol=0, atol=0, equal_nan=True))
    return bool(torch.equal(one, other))


def _tolerance(dtype: torch.dtype) -> float:
    if not (dtype.is_floating_point or dtype.is_complex):
        return 0.0
    return tolerances.of_the_same(float(torch.finfo(dtype).eps))


def _deviate(
    actual: Any,
    expected: torch.Tensor,
    what: str,
    alternatives: Mapping[str, Any] | None,
    cause: str | Callable[[], str] = "",
    tolerance: str = "",
) -> None:
    likely = (cause() if callable(cause) else cause) or likely_cause(actual, expected, alternatives or {})
    raise Deviation(f"{what} differs{where_apart(actual, expected)}{tolerance}", *shown_apart(actual, expected), likely)
