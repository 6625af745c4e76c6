"""Building blocks of correct collectives."""

from __future__ import annotations

import torch
import torch.distributed as dist

from conformance import GROUP


def matrix_and_group():
    """Return a matrix whose rows can be split among ranks, and the group."""
    generator = torch.Generator().manual_seed(700)
    return [(torch.randn(6, 2, dtype=torch.float64, generator=generator, requires_grad=True), GROUP)]


def rank_and_size():
    """Return this rank and the world size; 0 and 1 without a process group, as when inputs are inspected."""
    return (dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else (0, 1)


def dense(x):
    """Copy a tensor into contiguous memory of its own."""
    return x.detach().clone(memory_format=torch.contiguous_format)


def summed(x, group):
    total = dense(x)
    dist.all_reduce(total, group=group)
    return total


def gathered(x, group):
    """Gather the tensors of all ranks."""
    own = dense(x)
    parts = [torch.empty_like(own) for _ in range(dist.get_world_size(group))]
    dist.all_gather(parts, own, group=group)
    return parts


def dealt(x, sent, received, group):
    """Deal rows out to ranks, and return those that came from each."""
    out = x.new_empty((sum(received), *x.shape[1:]))
    dist.all_to_all_single(out, x.contiguous(), received, sent, group=group)
    return out


def own_part(x, group):
    """Return this rank's rows of a tensor that every rank has."""
    return dense(x.chunk(dist.get_world_size(group))[dist.get_rank(group)])
