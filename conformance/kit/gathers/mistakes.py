"""Wrong values that gathers are known to return, each by the mistake that leads to it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch

#: ``table[s][r]``: what rank s holds for the entry, or the tensor, of rank r.
Table = list[list[torch.Tensor]]


def added_up(table: Table, rank: int) -> torch.Tensor:
    """Sum what all ranks hold for one rank."""
    return torch.stack([row[rank] for row in table]).sum(0)


def entry_mistakes(tensors: Sequence[torch.Tensor], place: int) -> dict[str, torch.Tensor]:
    """Wrong values for one entry of a gather, by what leads to them."""
    others = {f"the tensor of rank {s}, not of rank {place}": t for s, t in enumerate(tensors) if s != place}
    if tensors[0].dtype == torch.bool or len(tensors) == 1:
        return others
    total = torch.stack(list(tensors)).sum(0).to(tensors[0].dtype)
    return others | {"all ranks' tensors added up": total, "zeros": torch.zeros_like(total)}


def join_mistakes(tensors: Sequence[torch.Tensor]) -> dict[str, torch.Tensor]:
    """Wrong values for tensors joined along dimension 0, by what leads to them."""
    if len(tensors) == 1:
        return {}
    repeated = {f"the tensor of rank {s} in every place": torch.cat([t] * len(tensors)) for s, t in enumerate(tensors)}
    return {
        "joined in the reverse order of ranks": torch.cat(list(reversed(tensors))),
        **repeated,
        "rows of the ranks interleaved": torch.stack(list(tensors), 1).flatten(0, 1),
    }


def slice_mistakes(table: Table, rank: int) -> dict[str, torch.Tensor]:
    """Return wrong gradients instead of this rank's own rows, by mistake; likelier ones first."""
    size, own, total = len(table), table[rank][rank], added_up(table, rank)
    if size == 1:
        return {}
    mistakes = {
        "sum over ranks instead of this rank's rows alone: reduced": total,
        "mean over ranks instead of this rank's rows alone": total / size,
        f"this rank's rows times {size}, the number of ranks": own * size,
        f"this rank's rows divided by {size}, the number of ranks": own / size,
    }
    for other in range(size):
        if other != rank:
            mistakes[f"the rows of rank {other}"] = table[rank][other]
            mistakes[f"the gradient that rank {other} holds for this rank's rows"] = table[other][rank]
            mistakes[f"the sum over ranks of the rows of rank {other}"] = added_up(table, other)
    return mistakes


def gradient_mistakes(table: Table, rank: int) -> dict[str, torch.Tensor]:
    """Wrong gradients for ``x`` of one rank, by what leads to them; likelier ones first."""
    return dict(_gradient_mistakes(table, rank)) if len(table) > 1 else {}


def _gradient_mistakes(table: Table, rank: int) -> Iterator[tuple[str, torch.Tensor]]:
    size, own, total = len(table), table[rank][rank], added_up(table, rank)
    yield "slice instead of sum: each rank's own gradient alone; the gradients of other ranks' losses are lost", own
    yield "mean over ranks instead of sum", total / size
    yield f"the sum times {size}, the number of ranks", total * size
    yield f"slice instead of sum, times {size}, the number of ranks", own * size
    yield f"slice instead of sum, divided by {size}, the number of ranks", own / size
    slices = torch.stack([row[s] for s, row in enumerate(table)]).sum(0)
    yield "each rank's slice for its own entry, added up: gradients of different entries are mixed", slices
    for other in range(size):
        if other != rank:
            yield f"the gradient of entry {other}, which belongs to rank {other}", added_up(table, other)
    for other in range(size):
        if other != rank:
            yield f"rank {other}'s gradient alone, not the sum", table[other][rank]
            yield f"the sum without rank {other}", total - table[other][rank]
            yield f"the gradient that rank {other} holds for its own entry", table[other][other]
            yield f"rank {rank}'s own gradient for the entry of rank {other}", table[rank][other]
    yield f"the sum without rank {rank}'s own gradient", total - own
    yield f"rank {rank}'s own gradient counted twice", total + own
    yield f"rank {rank}'s gradients of all entries added up", torch.stack(table[rank]).sum(0)
    if not own.dtype.is_complex:
        column = torch.stack([row[rank] for row in table])
        yield "the largest over ranks instead of the sum", column.amax(0)
        yield "the smallest over ranks instead of the sum", column.amin(0)
    yield "a product instead of a sum", torch.stack([row[rank] for row in table]).prod(0)
