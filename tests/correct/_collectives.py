"""The steps that correct collectives are made of, each in a process group."""

from __future__ import annotations

import torch
import torch.distributed as dist

from conformance import GROUP


def matrix_and_group():
    """A matrix whose rows can be dealt out, and the group."""
    generator = torch.Generator().manual_seed(700)
    return [(torch.randn(6, 2, dtype=torch.float64, generator=generator, requires_grad=True), GROUP)]


def rank_and_size():
    """This rank, and how many there are; a rank alone where there is no group, as where inputs are looked at."""
    return (dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else (0, 1)


def dense(x):
    """Elements in order, in memory of their own."""
    return x.detach().clone(memory_format=torch.contiguous_format)


def summed(x, group):
    total = dense(x)
    dist.all_reduce(total, group=group)
    return total


def gathered(x, group):
    """Every rank's tensor."""
    own = dense(x)
    parts = [torch.empty_like(own) for _ in range(dist.get_world_size(group))]
    dist.all_gather(parts, own, group=group)
    return parts


def own_part(x, group):
    """This rank's rows of something that every rank has."""
    return dense(x.chunk(dist.get_world_size(group))[dist.get_rank(group)])
