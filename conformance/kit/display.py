"""Texts for the values in a message: tensors with shape, dtype, and the elements in which they differ."""

from __future__ import annotations

import torch

from conformance.kit.tensors import dense, double_dtype, freed

#: Elements of a tensor that a message shows, and digits of each: more if fewer do not distinguish two tensors.
SHOWN_ELEMENTS, SHOWN_DIGITS = 6, (6, 9, 12, 17)


def shown(value: object, digits: int = SHOWN_DIGITS[0], start: int = 0) -> str:
    """Return a short text for a value: tensors with shape, dtype and some elements.

    Args:
        value: anything.
        digits: significant digits of each number.
        start: the first element that is shown, of a tensor laid out flat.

    >>> shown(torch.tensor([1.0, 2.0]))
    'tensor[2] float32 [1, 2]'
    """
    if not isinstance(value, torch.Tensor):
        return _safe_repr(value)
    shape = "x".join(str(size) for size in value.shape) or "0-d"
    head = f"tensor[{shape}] {str(value.dtype).removeprefix('torch.')}"
    if freed(value):
        return f"{head}, whose memory was freed"
    try:
        flat = dense(value.detach()).cpu().reshape(-1)
        some = flat[start : start + SHOWN_ELEMENTS]
        items = some.tolist()
        numbers = ", ".join(f"{one:.{digits}g}" if isinstance(one, float | complex) else str(one) for one in items)
    except (RuntimeError, NotImplementedError, TypeError):
        return head
    return f"{head} [{'..., ' if start else ''}{numbers}{', ...' if flat.numel() > start + SHOWN_ELEMENTS else ''}]"


def shown_apart(actual: torch.Tensor | None, expected: torch.Tensor | None) -> tuple[str, str]:
    """Return texts for ``actual`` and ``expected``, with the elements and the digits in which they differ.

    >>> shown_apart(torch.tensor(1.0 + 1e-7), torch.tensor(1.0))
    ('tensor[0-d] float32 [1.00000012]', 'tensor[0-d] float32 [1]')
    """
    telling = 0 if actual is None or expected is None else _telling(actual, expected)
    for start in dict.fromkeys((telling, 0)):
        for digits in SHOWN_DIGITS:
            one, other = shown(actual, digits, start), shown(expected, digits, start)
            if one != other:
                return one, other
    return shown(actual), shown(expected)


def beyond_start(actual: torch.Tensor, expected: torch.Tensor) -> str:
    """Say where two tensors differ most, for a message that shows them from there; empty if it shows their start.

    Args:
        actual: a tensor of any shape and dtype.
        expected: what it should be, a tensor of the same shape.

    >>> beyond_start(torch.arange(9.0), torch.tensor([0.0, 1, 2, 3, 4, 5, 6, 8, 8]))
    ', most at [7]'
    """
    start = _telling(actual, expected)
    return f", most at {_position(actual.shape, start)}" if start else ""


def where_apart(actual: torch.Tensor, expected: torch.Tensor) -> str:
    """Say in how many elements two tensors of one shape differ, and where most, for a message; empty for a scalar."""
    gap = _gap(actual, expected)
    if gap.dim() == 0:
        return ""
    position = _position(gap.shape, int(gap.argmax()))
    wrong = int((gap > 0).sum())
    return f" in {wrong} of {gap.numel()} elements, most at {position}"


def alike_in_double(actual: torch.Tensor, expected: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return both tensors in one double-precision dtype on one device."""
    wide = double_dtype(actual.dtype, expected.dtype)
    return dense(actual.detach()).to(wide), dense(expected.detach()).to(actual.device, wide)


def _telling(actual: torch.Tensor, expected: torch.Tensor) -> int:
    """Return the first element to show of two tensors: the start if they differ there, else where they differ most."""
    if actual.shape != expected.shape or actual.numel() == 0:
        return 0
    gap = _gap(actual, expected).reshape(-1)
    return int(gap.argmax()) if gap[:SHOWN_ELEMENTS].max() < gap.max() / 10 else 0


def _gap(actual: torch.Tensor, expected: torch.Tensor) -> torch.Tensor:
    one, other = alike_in_double(actual, expected)
    return torch.nan_to_num((one - other).abs(), nan=float("inf"))


def _position(shape: torch.Size, element: int) -> list[int]:
    return [int(index) for index in torch.unravel_index(torch.tensor(element), shape)]


def _safe_repr(value: object) -> str:
    try:
        text = repr(value)
    except BaseException as error:
        text = f"<{type(value).__name__}, whose repr raised {type(error).__name__}>"
    return text if len(text) <= 400 else text[:400] + "..."
