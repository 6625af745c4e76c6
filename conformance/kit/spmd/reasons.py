"""Explain in one sentence why gradients are not those of a signature."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import torch

from conformance.core.signatures import Type
from conformance.kit.spmd.owed import Slopes

#: What is wrong where ranks' shares of an argument of type P are not added up: results are to blame, not gradients.
NOT_BY_ITS_SUM = "the result depends on more than the argument's sum"
SUM_MISSING = "a sum over the ranks is missing"
#: Beyond this many ranks, only one rank at a time is considered as left out.
MANY_RANKS = 5


def problem(kind: Type, slopes: Slopes, gradients: Sequence[torch.Tensor | None], own_losses: bool, what: str) -> str:
    """Describe the error in the ranks' gradients of one argument; empty if there is none.

    Args:
        kind: the type of the argument.
        slopes: how the loss answers when the argument moves.
        gradients: what each rank's backward returned.
        own_losses: whether each rank has a loss of its own: the result is of type R or V.
        what: the gradient, in words.
    """
    shape = slopes.table.shape[2:]
    actual = [torch.zeros(shape, dtype=slopes.table.dtype) if g is None else g.to(slopes.table) for g in gradients]
    own_losses = own_losses and not slopes.is_declared
    if kind is Type.P and not slopes.is_declared:
        for rank in range(1, len(actual)):
            if not slopes.near(slopes.gradient(rank), slopes.gradient(0)):
                return f"{NOT_BY_ITS_SUM}: a change on rank {rank} has another effect than on rank 0"
    if kind is Type.R:
        total = torch.stack(actual).sum(0)
        name = f"the sum of the ranks' gradients{what.removeprefix('the gradient')}"
        return _difference(total, slopes, slopes.table.sum(0), name, own_losses, str)
    for rank, gradient in enumerate(actual):
        parts = slopes.table[rank if len(slopes.table) > 1 else 0]
        mistake = partial(_mistake, rank, kind, actual, slopes, what)
        text = _difference(gradient, slopes, parts, f"on rank {rank} {what}", own_losses, mistake)
        if text:
            return f"{text}: {SUM_MISSING}" if _lack_a_sum(kind, actual, slopes, own_losses) else text
    return ""


def _lack_a_sum(kind: Type, actual: Sequence[torch.Tensor], slopes: Slopes, own_losses: bool) -> bool:
    """Whether each rank returns the gradient of its own loss, or a part of a gradient that must be the same."""
    if kind is not Type.V and slopes.near(torch.stack(list(actual)).sum(0), slopes.gradient(0)):
        return True
    own = (slopes.table[rank if len(slopes.table) > 1 else 0][rank] for rank in range(len(actual) * own_losses))
    return own_losses and all(map(slopes.near, actual, own))


def _mistake(rank: int, kind: Type, actual: Sequence[torch.Tensor], slopes: Slopes, what: str) -> str:
    """Explain a rank's wrong gradient by those of the others."""
    if kind is Type.V and slopes.near(actual[rank], slopes.table.sum((0, 1))):
        return f"on rank {rank} {what} is the sum of the gradients that all ranks must have"
    for other in range(len(actual)):
        if kind is Type.V and other != rank and slopes.near(actual[rank], slopes.gradient(other)):
            return f"on rank {rank} {what} is the gradient that rank {other} must have"
        if kind is not Type.V and not slopes.near(actual[rank], actual[other]):
            return f"{what} differs between ranks {rank} and {other}; for type {kind.value} it must be the same"
    return ""


def _difference(
    actual: torch.Tensor, slopes: Slopes, parts: torch.Tensor, name: str, own_losses: bool, mistake: Callable[[], str]
) -> str:
    """Say how a gradient differs from the sum of the parts that each rank's loss adds to it; empty if it does not.

    ``mistake`` explains a wrong gradient by those of other ranks, or returns nothing.
    """
    expected = parts.sum(0)
    if slopes.near(actual, expected):
        return ""
    if not actual.any():
        return f"{name} is zero"
    for missing in _left_out(len(parts)) if own_losses else ():
        if slopes.near(actual, expected - parts[list(missing)].sum(0)):
            return f"{name} lacks the contribution of {_whose(missing)}"
    if said := mistake():
        return said
    factor = float((expected.conj() * actual).real.sum() / expected.abs().square().sum().clamp_min(1e-300))
    if slopes.near(actual, factor * expected):
        return f"{name} is {factor:.4g} times the expected one"
    worst = int((actual - expected).abs().argmax())
    numbers = [tensor.reshape(-1)[worst].item() for tensor in (actual, expected)]
    return f"{name} has {numbers[0]:.6g} at element {worst}, expected {numbers[1]:.6g}"


def _left_out(size: int) -> Iterator[tuple[int, ...]]:
    for count in range(1, size if size <= MANY_RANKS else 2):
        yield from itertools.combinations(range(size), count)


def _whose(ranks: tuple[int, ...]) -> str:
    if len(ranks) == 1:
        return f"rank {ranks[0]}'s loss"
    return f"the loss of ranks {', '.join(map(str, ranks[:-1]))} and {ranks[-1]}"
