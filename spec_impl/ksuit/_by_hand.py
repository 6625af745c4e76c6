"""The steps that correct gathers are made of, with PyTorch's own collectives."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.distributed as dist

DTYPES = sorted({value for value in vars(torch).values() if isinstance(value, torch.dtype)}, key=str)


def size() -> int:
    return dist.get_world_size()


def rank() -> int:
    return dist.get_rank()


def dense(x: torch.Tensor) -> torch.Tensor:
    """Elements in logical order, in memory of its own."""
    return x.detach().resolve_conj().clone(memory_format=torch.contiguous_format)


def agree(x: torch.Tensor) -> None:
    """Raise on every rank where shapes or dtypes differ."""
    mine = torch.tensor([DTYPES.index(x.dtype), x.dim(), *x.shape, *[0] * (20 - x.dim())])
    everyone = [torch.empty_like(mine) for _ in range(size())]
    dist.all_gather(everyone, mine)
    if any(not torch.equal(mine, other) for other in everyone):
        raise ValueError(f"shapes or dtypes differ between ranks: here {tuple(x.shape)} {x.dtype}")


def check(args) -> None:
    """Raise where args say something else than the process group."""
    if (args.world_size, args.local_rank) != (size(), rank()):
        raise ValueError(f"args say rank {args.local_rank} of {args.world_size}; this is rank {rank()} of {size()}")


def gathered(x: torch.Tensor) -> list[torch.Tensor]:
    """Every rank's tensor, each in memory of its own."""
    agree(x)
    outputs = [torch.empty(x.shape, dtype=x.dtype) for _ in range(size())]
    dist.all_gather(outputs, dense(x))
    return outputs


def stack(grads: Sequence[torch.Tensor]) -> torch.Tensor:
    return torch.stack([dense(grad) for grad in grads])


def summed(grads: Sequence[torch.Tensor]) -> torch.Tensor:
    """What every rank holds for this one, added up."""
    total = stack(grads)
    dist.all_reduce(total)
    return total[rank()].clone()


def joined(tensor, args):
    """All ranks' rows, or a copy of the tensor where there is one rank."""
    if args.world_size == 1:
        return dense(tensor)
    check(args)
    return torch.cat(gathered(tensor))


def own_rows(grad, world_size, place):
    """A copy of this rank's rows."""
    rows = grad.shape[0] // world_size
    return grad[rows * place : rows * (place + 1)].clone()
