"""Helpers that the Functions of the other files import."""

import torch
import torch.distributed as wires


def total(tensor, group):
    """Adds up over the ranks, in the tensor itself, or in a copy of one that is not contiguous."""
    if group.size() == 1:
        return tensor
    wires.all_reduce(tensor.contiguous(), group=group)
    return tensor


def total_in_place(tensor, group=None):
    wires.all_reduce(tensor, group=group)
    return tensor


def own_rows(tensor, group):
    rows = list(tensor.contiguous().chunk(group.size()))
    mine = torch.empty_like(rows[0])
    wires.reduce_scatter(mine, rows, group=group)
    return mine


def bounded(tensor, low, high, inplace=False):
    result = tensor if inplace else tensor.clone()
    torch.clamp(result, low, high, out=result)
    return result


@torch.jit.script
def bounded_(tensor, low, high):
    torch.maximum(tensor, low, out=tensor)
    torch.minimum(tensor, high, out=tensor)
    return tensor


def as_numbers(tensor):
    return tensor.cpu().numpy()
