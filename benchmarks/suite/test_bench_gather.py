"""One gather check, as often as a benchmark asks for it."""

from __future__ import annotations

import torch

from conformance.kit import expect
from conformance.kit.marks import clause, ranks


@clause("AllGatherGradAutograd.forward.every-rank")
@ranks(1, 2, 3, 4)
def test_gather(subject, world):
    """Every rank gets every rank's tensor, and the gradient is the sum over ranks."""
    x = world.tensor(world.rank, (4, 3), torch.float64, "x").requires_grad_()
    outputs = subject(x)
    torch.stack(outputs).sum().backward()
    for source, output in enumerate(outputs):
        expect.equal(output.detach(), world.tensor(source, (4, 3), torch.float64, "x"), f"entry {source}")
    expect.close(x.grad, torch.full_like(x, world.size), "gradient")
