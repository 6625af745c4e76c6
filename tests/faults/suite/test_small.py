"""A suite of a few tests, enough to see what a fault does to its own test and to the others.

A fault happens on the last rank, in the test whose ``x`` has seven elements, in forward or in backward.
"""

from __future__ import annotations

import torch

from conformance.kit import expect
from conformance.kit.marks import clause, ranks


@clause("AllGatherGradAutograd.forward.every-rank")
@ranks(1, 2, 3, 4)
def test_calm(subject, world):
    """A call that nothing is wrong with: values and gradients."""
    calm(subject, world, 5)


@clause("AllGatherGradAutograd.backward.sum")
@ranks(1, 2, 3, 4)
def test_fault(subject, world):
    """The call that goes wrong."""
    calm(subject, world, 7)


@clause("AllGatherGradAutograd.backward.sum")
@ranks(1, 2, 3, 4)
def test_later(subject, world):
    """Another call that nothing is wrong with."""
    calm(subject, world, 4)


def calm(subject, world, size):
    x = torch.full((size,), world.rank + 1.0, requires_grad=True)
    gathered = subject(x)
    sum((rank + 1) * entry.sum() for rank, entry in enumerate(gathered)).backward()
    for rank, entry in enumerate(gathered):
        expect.equal(entry.detach(), torch.full((size,), rank + 1.0), f"entry {rank}")
    expect.equal(x.grad, torch.full((size,), float(world.size * (world.rank + 1))), "the gradient")
