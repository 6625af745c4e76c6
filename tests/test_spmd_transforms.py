"""The reference collectives under ``torch.func``: batches and Jacobians."""

from __future__ import annotations

import pytest
import torch

from tests.spmd_reference import alone, every_name, function, held, sample
from tests.spmd_world import world


def mapped(ranks, group, name, dim):
    """Mapped and looped: results and gradients."""
    run = function(name, group, "Separate")
    samples = [held(ranks, name, sample(ranks, *[0] * at))[ranks.rank] for at in range(4)]
    x = torch.stack(samples, dim)
    assert torch.equal(torch.vmap(run, dim)(x), torch.stack([run(one) for one in samples]))

    def gradient(one):
        return torch.func.grad(lambda z: run(z).pow(3).sum())(one)

    expected = torch.stack([gradient(one) for one in samples])
    assert torch.allclose(torch.vmap(gradient, dim)(x), expected)
    assert torch.allclose(torch.vmap(torch.vmap(gradient, dim), 0)(x[None])[0], expected)


@pytest.mark.parametrize("dim", [0, 1, 2])
@every_name
def test_vmap_is_the_loop(name, dim):
    world().run(mapped, (0, 1, 2), name, dim)


def mapped_vectors(ranks, group, name):
    run = function(name, group, "Separate")
    x = torch.arange(12.0 * ranks.size).view(3, -1)
    assert torch.equal(torch.vmap(run)(x), torch.stack([run(one) for one in x]))


@every_name
def test_vectors_can_be_mapped(name):
    world().run(mapped_vectors, (0, 1), name)


def constant_on_one_rank(ranks, group, name):
    """Mapped and looped, where the gradient handed in is one for all samples on rank 0 and differs on the others."""
    run = function(name, group, "Separate")
    x = torch.stack([held(ranks, name, sample(ranks, *[0] * at))[ranks.rank] for at in range(4)])
    scale = (lambda z: 1.0) if ranks.rank == 0 else (lambda z: z.detach().sum())

    def gradient(one):
        return torch.func.grad(lambda z: (scale(one) * run(z)).sum())(one)

    assert torch.allclose(torch.vmap(gradient)(x), torch.stack([gradient(one) for one in x]))


@every_name
def test_vmap_of_gradients_that_are_constant_on_one_rank(name):
    world().run(constant_on_one_rank, (0, 1, 2), name)


def jacobians(ranks, group, name):
    """Forward mode, and reverse mode: of what rank 0 gives alone, or all ranks together."""
    x = held(ranks, name, sample(ranks)[:, :1])[ranks.rank]
    run = function(name, group, "Separate")
    return torch.func.jacfwd(run)(x), torch.func.jacrev(run)(x)


@alone
def test_jacobians_agree_on_one_rank(name):
    ((forward, reverse),) = world().run(jacobians, (2,), name)
    assert torch.equal(forward, reverse)
    assert forward.any()
