"""Gradients of leaves, also for Functions that do not support ``torch.autograd.grad``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

Gradients = tuple[torch.Tensor | None, ...]


@contextmanager
def grads_kept(leaves: Iterable[torch.Tensor]) -> Iterator[None]:
    """Restore ``grad`` of a caller's own parameters."""
    before = [(leaf, leaf.grad) for leaf in leaves]
    try:
        yield
    finally:
        for leaf, grad in before:
            leaf.grad = grad


def leaf_gradients(
    outputs: Sequence[torch.Tensor],
    leaves: Sequence[torch.Tensor],
    cotangents: Sequence[torch.Tensor],
    create_graph: bool = False,
    **options: Any,
) -> Gradients:
    """Compute the gradient of every leaf, None if there is none.

    A reentrant checkpoint runs a whole backward pass inside its own and rejects :func:`torch.autograd.grad`, so
    :func:`torch.autograd.backward` is used for it, as its users do. It has no second derivative, so that refusal
    stands.
    """
    try:
        return tuple(
            torch.autograd.grad(outputs, leaves, cotangents, allow_unused=True, create_graph=create_graph, **options)
        )
    except RuntimeError as error:
        if create_graph or ".grad()" not in str(error):
            raise
    for leaf in leaves:
        leaf.grad = None
    torch.autograd.backward(outputs, cotangents, **options)
    return tuple(leaf.grad for leaf in leaves)
