"""Expect an error on every rank if the ranks disagree."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from conformance.kit import expect
from conformance.kit.world import World


def expect_refused(
    world: World, gather: Callable[[], Any], x: torch.Tensor, words: Sequence[str], differing: str, right: Any = None
) -> None:
    """Assert that every rank gets an error that contains one of ``words``; or that ``right`` holds, if given."""
    try:
        actual = gather()
        mine, objects = f"no error; it returned {_shown(actual)}", right is not None and _is(actual, right)
    except Exception as error:
        text = str(error)
        mine, objects = f"{type(error).__name__}: {text}", any(word in text.lower() for word in words)
    said = world.exchange([objects, mine, expect.shown(x)])
    given = ", ".join(f"rank {rank} gives {shown}" for rank, (_, _, shown) in enumerate(said))
    for rank, (fine, text, _) in enumerate(said):
        what = f"the error on rank {rank} of {world.size} for {differing} ({given})"
        expect.that(fine, what, text, f"an error on every rank, with one of {', '.join(words)} in its text")


def _is(actual: Any, right: torch.Tensor) -> bool:
    return isinstance(actual, torch.Tensor) and actual.shape == right.shape and torch.equal(actual, right)


def _shown(value: Any) -> str:
    return str([expect.shown(item) for item in value]) if isinstance(value, tuple | list) else expect.shown(value)
