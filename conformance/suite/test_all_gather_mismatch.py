"""AllGather, forward: ranks that do not agree on what is joined, and tensors that cannot be joined."""

from __future__ import annotations

import torch

from conformance.marks import cases, clause, deadline, ranks
from conformance.subject import Subject
from conformance.suite._gathers import every_rank_objects, launch
from conformance.world import World

#: What the odd rank gives, and what the others give; the same number of elements makes it hard to notice.
SHAPES = {
    "more rows": ((3, 2), (2, 2)),
    "more columns": ((2, 3), (2, 2)),
    "transposed": ((2, 3), (3, 2)),
    "other number of dimensions": ((4,), (2, 2)),
}


@clause("AllGather.forward.mismatch")
@ranks(2, 3)
@cases(shapes=["more rows", "more columns", "transposed", "other number of dimensions"], odd=["first", "last"])
@deadline(5)
def test_shapes_that_differ(subject: Subject, world: World, shapes: str, odd: str) -> None:
    """Where one rank's shape differs every rank raises an error that speaks of it, or joins rows that can be joined."""
    given = [SHAPES[shapes][0 if rank == _odd_rank(world, odd) else 1] for rank in range(world.size)]
    tensors = [torch.full(shape, float(rank), device=world.device) for rank, shape in enumerate(given)]
    x = tensors[world.rank]
    right = torch.cat(tensors) if shapes == "more rows" else None
    words = ("shape", "size", "agree")
    every_rank_objects(world, lambda: subject(x, launch(world)), x, words, "shapes that differ", right)


@clause("AllGather.forward.mismatch")
@ranks(2, 3)
@cases(dtypes=[("float32", "int32"), ("float64", "float32")], odd=["first", "last"])
@deadline(5)
def test_dtypes_that_differ(subject: Subject, world: World, dtypes: tuple[str, str], odd: str) -> None:
    """Where one rank's dtype differs, every rank raises an error that speaks of dtypes."""
    dtype = getattr(torch, dtypes[0 if world.rank == _odd_rank(world, odd) else 1])
    x = torch.ones(3, device=world.device).to(dtype)
    every_rank_objects(world, lambda: subject(x, launch(world)), x, ("type", "agree"), "dtypes that differ")


@clause("AllGather.forward.mismatch")
@ranks(2, 3)
@deadline(5)
def test_tensors_without_dimensions(subject: Subject, world: World) -> None:
    """Tensors without a dimension cannot be joined along one: every rank raises an error that says so."""
    x = torch.tensor(1.0, device=world.device)
    words = ("dim", "0-d", "scalar")
    every_rank_objects(world, lambda: subject(x, launch(world)), x, words, "tensors without a dimension to join along")


def _odd_rank(world: World, odd: str) -> int:
    return 0 if odd == "first" else world.size - 1
