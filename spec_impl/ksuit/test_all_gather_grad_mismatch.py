"""AllGatherGradAutograd, forward: shapes or dtypes that differ between ranks."""

from __future__ import annotations

import torch

from conformance.kit import Subject, World, cases, clause, deadline, need, ranks
from conformance.kit.gathers.refusals import expect_refused

#: Inputs of the odd rank and of the others; equal numbers of elements or bytes make the mismatch hard to notice.
#: First those that end at once if undetected: the others may crash, or hang.
SHAPES = {
    "transposed": ((2, 3), (3, 2)),
    "other number of dimensions": ((4,), (2, 2)),
    "more rows": ((3, 2), (2, 2)),
    "empty": ((0,), (3,)),
}


@clause("AllGatherGradAutograd.forward.mismatch")
@ranks(2)
@cases(shapes=["transposed", "other number of dimensions", "more rows", "empty"])
@deadline(3)
def test_shapes_that_differ(subject: Subject, world: World, shapes: str) -> None:
    """If one rank's shape differs, every rank raises an error that speaks of shapes."""
    joinable = all(len(shape) > subject.dim for shape in SHAPES[shapes])
    need(subject.form != "joined" or joinable, f"it joins along dimension {subject.dim}, which not all of these have")
    shape = SHAPES[shapes][0 if world.rank == _odd_rank(world) else 1]
    x = torch.ones(shape, device=world.device)
    expect_refused(world, lambda: subject(x), x, ("shape", "size", "agree"), "shapes that differ")


@clause("AllGatherGradAutograd.forward.mismatch")
@ranks(2)
@cases(dtypes=[("float32", "int32"), ("float64", "float32"), ("float16", "bfloat16")])
@deadline(3)
def test_dtypes_that_differ(subject: Subject, world: World, dtypes: tuple[str, str]) -> None:
    """If one rank's dtype differs, every rank raises an error that speaks of dtypes."""
    dtype = getattr(torch, dtypes[0 if world.rank == _odd_rank(world) else 1])
    x = torch.ones((2, 3), device=world.device).to(dtype)
    expect_refused(world, lambda: subject(x), x, ("type", "agree"), "dtypes that differ")


def _odd_rank(world: World) -> int:
    return world.size - 1
