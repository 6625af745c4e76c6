"""The gather as ksuit's documentation has it: a list, then stack, all-reduce and select in backward."""

from __future__ import annotations

import torch
import torch.distributed as dist


class AllGatherGradAutograd(torch.autograd.Function):
    """Adds up all ranks' gradients of all entries, and keeps one."""

    @staticmethod
    def forward(ctx, x):
        """A list of all ranks' tensors."""
        outputs = [torch.zeros_like(x) for _ in range(dist.get_world_size())]
        dist.all_gather(outputs, x)
        return tuple(outputs)

    @staticmethod
    def backward(ctx, *grads):
        """A view of the sum of everything."""
        stacked = torch.stack(grads)
        dist.all_reduce(stacked, op=dist.ReduceOp.SUM)
        return stacked[dist.get_rank()]
