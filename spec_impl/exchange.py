"""How the gathers of this package move tensors between ranks: nothing here is differentiated.

Tensors on the CPU travel as messages from rank to rank, straight from the sender's memory into the
receiver's, which on Gloo takes a little over half the time of its all_gather and all_reduce and needs no
buffer besides the result. Tensors on an accelerator use the backend's own collectives.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist

# Messages of other code between the same two ranks carry tag 0 and must not be taken for ours.
_TAG = 0x6A7

# A description is [dtype, dimensions, sizes...]; PyTorch's operators take at most 64 dimensions.
_SIZES = 64
_DTYPES = sorted({value for value in vars(torch).values() if isinstance(value, torch.dtype)}, key=str)


def place(group: Any) -> tuple[int, int]:
    """The rank of this process in ``group``, and the number of ranks there.

    Raises:
        ValueError: this process is not in the group.
    """
    rank = dist.get_rank(group)
    if rank < 0:
        raise ValueError("this process is not a rank of the process group that it gathers over")
    return rank, dist.get_world_size(group)


def dense(x: torch.Tensor) -> torch.Tensor:
    """``x`` with its elements lying in logical order; a copy only where they do not lie so already."""
    return x.detach().resolve_conj().resolve_neg().contiguous()


def agree(x: torch.Tensor, group: Any) -> None:
    """Make sure that ``x`` has the same shape and dtype on all ranks.

    One small exchange of fixed size, so that it cannot itself be upset by what it looks for.

    Raises:
        ValueError: on every rank, where two ranks differ; the message says what each one has.
    """
    rank, size = place(group)
    sizes = [*x.shape, *[0] * _SIZES][:_SIZES]
    mine = torch.tensor([_DTYPES.index(x.dtype), x.dim(), *sizes], device=x.device)
    everyone = [torch.empty_like(mine) for _ in range(size)]
    gather_into(everyone, mine, group)
    rows = torch.stack(everyone).tolist()
    if any(row != rows[rank] for row in rows):
        said = (f"rank {s} has {_DTYPES[row[0]]} {tuple(row[2 : 2 + row[1]])}" for s, row in enumerate(rows))
        raise ValueError(f"the ranks do not agree on what is gathered: {', '.join(said)}")


def gather_into(places: Sequence[torch.Tensor], x: torch.Tensor, group: Any) -> None:
    """Write rank s's ``x`` into ``places[s]``; all are contiguous, of one shape and dtype."""
    rank, _ = place(group)
    if x.device.type == "cpu":
        places[rank].copy_(x)
        _send_and_receive([x] * len(places), places, group)
    else:
        dist.all_gather(list(places), x, group=group)


def sum_parts(parts: Sequence[torch.Tensor], group: Any) -> torch.Tensor:
    """Add up ``parts[r]`` of every rank, r being this one, in memory of its own."""
    rank, size = place(group)
    mine = dense(parts[rank])
    if size == 1:
        return mine.clone()
    if mine.device.type != "cpu":
        total = torch.empty_like(mine)
        dist.reduce_scatter(total, [dense(part) for part in parts], group=group)
        return total
    received = [mine if s == rank else torch.empty_like(mine) for s in range(size)]
    _send_and_receive([dense(part) for part in parts], received, group)
    # Ranks are added in order, so that the sum is the same bits every time. The first two may change places,
    # and one of them was received: it becomes the sum.
    total, other = received[:2] if rank else (received[1], received[0])
    total += other
    for part in received[2:]:
        total += part
    return total


def _send_and_receive(outgoing: Sequence[torch.Tensor], incoming: Sequence[torch.Tensor], group: Any) -> None:
    """Send ``outgoing[s]`` to every other rank s, and write what it sends into ``incoming[s]``."""
    rank, size = place(group)
    if outgoing[rank].numel() == 0:
        return
    works = []
    for step in range(1, size):  # every rank begins with another peer, so that none is crowded
        to, source = (rank + step) % size, (rank - step) % size
        works.append(dist.irecv(_raw(incoming[source]), group=group, group_src=source, tag=_TAG))
        works.append(dist.isend(_raw(outgoing[to]), group=group, group_dst=to, tag=_TAG))
    for work in works:
        work.wait()


def _raw(x: torch.Tensor) -> torch.Tensor:
    """The bytes of a contiguous tensor: backends know fewer dtypes than PyTorch."""
    return x.view(-1).view(torch.uint8)
