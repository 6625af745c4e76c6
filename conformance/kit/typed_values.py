"""The ranks as one of them sees them, and what each rank holds by the types of a signature.

Every rank runs the same lines with the same sample, and so knows what the others hold without asking.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar
from zlib import crc32

import torch

from conformance.core.signatures import Signature, Type
from conformance.kit.tensors import differentiable, double_dtype
from conformance.kit.traits import missing_traits

_Made = TypeVar("_Made")


@dataclass(frozen=True)
class Ranks:
    """The ranks of the group under test.

    Attributes:
        rank: this one, as a rank within the group.
        size: how many there are.
        exchange: gives the plain values (numbers, text, lists) of all ranks of the group, in their order. It must not
            use the group under test.
        made_once: the same, and makes something of these values, which ranks of one process do once.
    """

    rank: int
    size: int
    exchange: Callable[[Any], list[Any]]
    made_once: Callable[..., Any] | None = None

    def together(self, value: Any, make: Callable[[list[Any]], _Made]) -> _Made:
        """What is made of the values of all ranks: no rank's own numbers are in it, and nobody changes it."""
        return make(self.exchange(value)) if self.made_once is None else self.made_once(value, make)

    def tensors(self, values: Sequence[torch.Tensor | None]) -> list[list[torch.Tensor | None]]:
        """Every rank's tensors, bit for bit, on the CPU.

        >>> Ranks(0, 2, lambda value: [value, value]).tensors([torch.ones(2), None])[1]
        [tensor([1., 1.]), None]
        """
        written = [None if value is None else _written(value) for value in values]
        return self.together(written, _read_all)

    def agreed(self, values: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """The first rank's tensors, on every rank: drawn at random, they may differ."""
        first = self.exchange([_written(value) for value in values])[0]
        return [
            _read(one).to(own.device).requires_grad_(own.requires_grad) for one, own in zip(first, values, strict=True)
        ]


def argument(kind: Type, sample: torch.Tensor, rank: int, *key: object) -> torch.Tensor:
    """Make a rank's value for an argument of a type, from a sample that is equal on every rank.

    R and I: the sample. V and P: rank 0 has the sample; the others have each element up to a quarter larger or smaller,
    so that signs, zeros and magnitudes stay what they were, or, of whole numbers, the same ones in another order. What
    that would take its :mod:`traits <conformance.kit.traits>` stays as it is, or becomes smaller as a whole. A sample
    of zeros alone gets small random numbers instead.
    """
    value = sample.detach().clone()
    if kind.differs and rank > 0:
        value = _varied(value, rank, key)
    return value.requires_grad_(sample.requires_grad)


def by_types(samples: Sequence[torch.Tensor], signature: Signature | None, rank: int) -> list[torch.Tensor]:
    """Return a rank's tensors, made from samples that are equal on every rank."""
    kinds = signature.arguments if signature else (Type.V,) * len(samples)
    return [argument(kind, sample, rank, at) for at, (kind, sample) in enumerate(zip(kinds, samples, strict=True))]


def one_fewer(value: torch.Tensor) -> torch.Tensor:
    """Return a mask or labels of which one element fewer is kept, or lengths with a smaller sum.

    The last becomes the smallest, if others are left; where no two are equal, the smallest becomes one less.

    >>> one_fewer(torch.tensor([True, True, False])), one_fewer(torch.tensor([-100, 7, -100, 2]))
    (tensor([ True, False, False]), tensor([-100,    7, -100, -100]))
    >>> one_fewer(torch.tensor([4, 2, 3])), one_fewer(torch.tensor([False, True]))
    (tensor([4, 1, 3]), tensor([False,  True]))
    """
    found = value.clone()
    if value.numel() < 2:
        return found
    least = value.min()
    kept = (value != least).nonzero()
    if least > 1 and len(value.unique()) == value.numel():
        found[value == least] -= 1
    elif len(kept) > 1:
        found[tuple(kept[-1])] = least
    return found


def reshared(share: torch.Tensor, rank: int, size: int, *key: object) -> torch.Tensor:
    """Another share of the same sum, for an argument of type P: each rank hands something on to the one before it.

    >>> shares = [torch.ones(2, dtype=torch.float64), torch.zeros(2, dtype=torch.float64)]
    >>> torch.allclose(sum(reshared(share, rank, 2) for rank, share in enumerate(shares)), sum(shares))
    True
    """
    given, taken = (_drawn(share, torch.randn, owner, "share", *key) for owner in (rank, (rank + 1) % size))
    return (share.detach() + (taken - given).to(share.device, share.dtype)).requires_grad_(share.requires_grad)


def cotangent(kind: Type, result: torch.Tensor, rank: int, *key: object) -> torch.Tensor:
    """A random gradient for a result of a type: each rank's own for R and V, the same on every rank for I and P.

    Elements that are infinite or no number, as a mask makes them, get none: differences show nothing there.
    """
    drawn = _drawn(result, torch.randn, rank if kind.loss_differs else "all", *key)
    return drawn.to(result.device, result.dtype).where(result.detach().isfinite(), 0)


def cotangents_by_types(kinds: Sequence[Type], results: Sequence[torch.Tensor], rank: int) -> list[torch.Tensor | None]:
    """A random gradient for each result that can have one, by the types; None for the others."""
    pairs = enumerate(zip(kinds, results, strict=True))
    return [cotangent(kind, result, rank, at) if differentiable(result) else None for at, (kind, result) in pairs]


def tangent(kind: Type, value: torch.Tensor, rank: int, *key: object) -> torch.Tensor:
    """A random tangent for an argument of a type: each rank's own for V and P, the same on every rank for R and I."""
    drawn = _drawn(value, torch.randn, rank if kind.differs else "all", "direction", *key)
    return drawn.to(value.device, value.dtype)


def _written(value: torch.Tensor) -> list[Any]:
    return [str(value.dtype).removeprefix("torch."), list(value.shape), bits(value).hex()]


def bits(value: torch.Tensor) -> bytes:
    r"""Return the memory of a tensor's elements, in their order.

    >>> bits(torch.tensor([1, 256], dtype=torch.int16))
    b'\x01\x00\x00\x01'
    """
    # A copy waits for what is still under way, as the result of a functional collective may be.
    plain = torch.empty(value.shape, dtype=value.dtype, device="cpu")
    plain.copy_(value.detach())
    return ctypes.string_at(plain.data_ptr(), plain.numel() * plain.element_size()) if plain.numel() else b""


def _read(written: list[Any]) -> torch.Tensor:
    name, shape, data = written
    dtype = getattr(torch, name)
    if not data:
        return torch.empty(shape, dtype=dtype)
    return torch.frombuffer(bytearray.fromhex(data), dtype=dtype).reshape(shape)


def _read_all(everyones: list[list[Any]]) -> list[list[torch.Tensor | None]]:
    return [[None if one is None else _read(one) for one in rank] for rank in everyones]


def _varied(value: torch.Tensor, rank: int, key: tuple[object, ...]) -> torch.Tensor:
    if not differentiable(value):
        rolled = value.reshape(-1).roll(rank).reshape(value.shape)
        return value if missing_traits(value, rolled) else rolled
    noise = 0.5 * _drawn(value.real, torch.rand, rank, "value", *key) - 0.25
    noise = noise.to(value.device, value.real.dtype)
    if not value.any():
        return noise.to(value.dtype)
    every = value * (1 + noise), value / (1 + 0.125 * rank)
    return next((other for other in every if not missing_traits(value, other, constant=False)), value)


def _drawn(like: torch.Tensor, draw: Callable[..., torch.Tensor], *key: object) -> torch.Tensor:
    wide = double_dtype(like.dtype)
    seed = crc32(repr((tuple(like.shape), *key)).encode())
    return draw(tuple(like.shape), dtype=wide, generator=torch.Generator().manual_seed(seed), device="cpu")
