"""Signatures such as ``V, R -> V, I``: the SPMD type of each tensor argument and of each tensor result."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass
from enum import Enum

from conformance.core.errors import UsageError
from conformance.core.prose import counted

EXAMPLE = "V, R -> V, I"


class BadTypes(UsageError):
    """A signature that cannot be read, or does not fit the call; one line that shows a right one."""


class Type(Enum):
    """How a tensor and its gradient are spread over the ranks of a group."""

    R = "R"
    I = "I"  # noqa: E741 the letter that PyTorch uses
    V = "V"
    P = "P"

    @property
    def meaning(self) -> str:
        """Explain the letter in one line."""
        return _MEANINGS[self]

    @property
    def differs(self) -> bool:
        """Tell whether ranks hold different values: V and P. R and I are the same on every rank."""
        return self in (Type.V, Type.P)

    @property
    def loss_differs(self) -> bool:
        """Tell whether each rank has a cotangent of its own for a result of this type: R and V.

        One of type I or P belongs to one loss that all ranks share, so its cotangent is the same on every rank.
        """
        return self in (Type.R, Type.V)


_MEANINGS = {
    Type.R: "replicate: the same on every rank; the gradients of the ranks differ, and count by their sum",
    Type.I: "invariant: the same on every rank, and so is its gradient",
    Type.V: "varying: each rank has its own, and its own gradient",
    Type.P: "partial: each rank has its own, and they count by their sum; the gradient is the same on every rank",
}

# A Function that keeps the first type of a pair keeps the second as well, whatever else its signature says.
_ARGUMENT_IMPLIES = {(Type.P, Type.V), (Type.P, Type.R), (Type.V, Type.R)}
_RESULT_IMPLIES = {(Type.R, Type.V), (Type.R, Type.P), (Type.V, Type.P)}


@dataclass(frozen=True)
class Signature:
    """The SPMD types that a Function claims for its tensors.

    Attributes:
        arguments: the types of the tensor arguments, in order.
        results: the types of the tensor results, in order; a single one stands for any number of alike results.
    """

    arguments: tuple[Type, ...]
    results: tuple[Type, ...]

    def __str__(self) -> str:
        return f"{_joined(self.arguments)} -> {_joined(self.results)}"

    def fitted(self, arguments: int, results: int) -> Signature:
        """Return the signature with one type for each tensor of a call.

        Raises:
            BadTypes: the call has other tensors than the signature names.

        >>> str(parse("V -> R").fitted(1, 3))
        'V -> R, R, R'
        """
        if len(self.arguments) != arguments:
            raise BadTypes(self._misfit("argument", len(self.arguments), arguments))
        if len(self.results) not in (1, results):
            raise BadTypes(self._misfit("result", len(self.results), results))
        alike = self.results * results if len(self.results) == 1 else self.results
        return Signature(self.arguments, alike)

    def implies(self, other: Signature) -> bool:
        """Tell whether a Function that keeps this signature also keeps the other one, by the meaning of the types.

        Each rank may hold a copy of its own (V) where it may hold any share of a sum (P), and all copies may be alike
        (R) where each may be any (V). A result that is alike on all ranks (R) is one that each rank has (V), and one
        that each rank has may be taken for a share of a sum (P). I stands by itself.

        >>> parse("V -> R").implies(parse("R -> P")), parse("V -> R").implies(parse("V -> I"))
        (True, False)
        """
        return _implied(self.arguments, other.arguments, _ARGUMENT_IMPLIES) and _implied(
            self.results, other.results, _RESULT_IMPLIES
        )

    def _misfit(self, what: str, named: int, found: int) -> str:
        arguments = (*self.arguments, *[Type.V] * found)[:found] if what == "argument" else self.arguments
        results = (*self.results, *[Type.V] * found)[:found] if what == "result" else self.results
        names = f'"{self}" names {counted(named, what)}, but the call has'
        if not found:
            return f"{names} none"
        return f'{names} {found}; write one letter for each tensor: "{Signature(arguments, results)}"'


def parse(text: object) -> Signature:
    """Read a signature.

    Raises:
        BadTypes: it is not one.

    >>> parse("V,R->V,I")
    Signature(arguments=(<Type.V: 'V'>, <Type.R: 'R'>), results=(<Type.V: 'V'>, <Type.I: 'I'>))
    """
    if not isinstance(text, str):
        raise BadTypes(f'types are text such as "{EXAMPLE}", not {text!r}')
    problem = _problem(text)
    if problem:
        raise BadTypes(f"{problem}; {_suggestion(text)}")
    left, right = text.split("->")
    return Signature(_types(left), _types(right))


def candidates(arguments: int, results: int) -> tuple[Signature, ...]:
    """Return every signature for a number of tensor arguments and results.

    >>> [str(signature) for signature in candidates(1, 1)][:5]
    ['R -> R', 'R -> I', 'R -> V', 'R -> P', 'I -> R']
    """
    sides = itertools.product(Type, repeat=arguments), itertools.product(Type, repeat=results)
    return tuple(Signature(left, right) for left, right in itertools.product(*sides))


def strongest(signatures: list[Signature]) -> list[Signature]:
    """Return the signatures that no other one implies.

    >>> [str(signature) for signature in strongest([parse("V -> P"), parse("V -> V"), parse("I -> I")])]
    ['V -> V', 'I -> I']
    """
    return [one for one in signatures if not any(other != one and other.implies(one) for other in signatures)]


def _problem(text: str) -> str:
    if text.count("->") != 1:
        return f'"{text}" has {"no arrow" if "->" not in text else "more than one arrow"}'
    for side, what in zip(text.split("->"), ("argument", "result"), strict=True):
        if not side.strip():
            return f'"{text}" names no {what}'
        for letter in side.split(","):
            if letter.strip() not in Type.__members__:
                return f'"{text}" has {_quoted(letter)} for a type; the types are R, I, V and P'
    return ""


def _suggestion(text: str) -> str:
    mended = re.sub(r",?\s*\bGROUP\b", "", text, flags=re.IGNORECASE)  # it is not a tensor, and only tensors have types
    mended = re.sub(
        r"\b(replicated?|invariant|varying|partial)\b", lambda word: word[0][0], mended, flags=re.IGNORECASE
    )
    mended = mended.upper().replace("\N{RIGHTWARDS ARROW}", "->").replace("=>", "->")
    return f'write "{parse(mended)}"' if not _problem(mended) else f'a right one is "{EXAMPLE}"'


def _types(side: str) -> tuple[Type, ...]:
    return tuple(Type[letter.strip()] for letter in side.split(","))


def _implied(these: tuple[Type, ...], others: tuple[Type, ...], pairs: set[tuple[Type, Type]]) -> bool:
    return len(these) == len(others) and all(
        one == other or (one, other) in pairs for one, other in zip(these, others, strict=True)
    )


def _joined(types: tuple[Type, ...]) -> str:
    return ", ".join(one.value for one in types)


def _quoted(letter: str) -> str:
    return f'"{letter.strip()}"' if letter.strip() else "nothing"
