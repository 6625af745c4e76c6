"""AllGather, forward: shapes or dtypes that differ between ranks, and tensors that cannot be joined."""

from __future__ import annotations

import torch

from conformance.kit import Subject, World, cases, clause, deadline, need, ranks
from conformance.kit.gathers.expected import need_vmap
from conformance.kit.gathers.refusals import expect_refused
from spec_impl.towhee.spec import NOT_HANDED, Launch, gets_args, launch

#: Inputs of the odd rank and of the others; equal numbers of elements make the mismatch hard to notice.
SHAPES = {
    "transposed": ((2, 3), (3, 2)),
    "other number of dimensions": ((4,), (2, 2)),
    "more rows": ((3, 2), (2, 2)),
    "more columns": ((2, 3), (2, 2)),
}


@clause("AllGather.forward.mismatch")
@ranks(2)
@cases(shapes=["transposed", "other number of dimensions", "more rows", "more columns"])
@deadline(3)
def test_shapes_that_differ(subject: Subject, world: World, shapes: str) -> None:
    """If one rank's shape differs every rank raises an error that speaks of it, or joins rows that can be joined."""
    given = [SHAPES[shapes][0 if rank == _odd_rank(world) else 1] for rank in range(world.size)]
    tensors = [torch.full(shape, float(rank), device=world.device) for rank, shape in enumerate(given)]
    x = tensors[world.rank]
    right = torch.cat(tensors) if shapes == "more rows" else None
    words = ("shape", "size", "agree")
    expect_refused(world, lambda: subject(x, launch(world)), x, words, "shapes that differ", right)


@clause("AllGather.forward.mismatch")
@ranks(2)
@cases(dtypes=[("float32", "int32"), ("float64", "float32")])
@deadline(3)
def test_dtypes_that_differ(subject: Subject, world: World, dtypes: tuple[str, str]) -> None:
    """If one rank's dtype differs, every rank raises an error that speaks of dtypes."""
    dtype = getattr(torch, dtypes[0 if world.rank == _odd_rank(world) else 1])
    x = torch.ones(3, device=world.device).to(dtype)
    expect_refused(world, lambda: subject(x, launch(world)), x, ("type", "agree"), "dtypes that differ")


@clause("AllGather.forward.mismatch")
@ranks(2)
@deadline(3)
def test_tensors_without_dimensions(subject: Subject, world: World) -> None:
    """Tensors without a dimension cannot be joined along one: every rank raises an error that says so."""
    x = torch.tensor(1.0, device=world.device)
    words = ("dim", "0-d", "scalar")
    expect_refused(world, lambda: subject(x, launch(world)), x, words, "tensors without a dimension to join along")


@clause("AllGather.forward.mismatch")
@ranks(2)
@cases(who=["all", "one"])
@deadline(5)
def test_samples_without_dimensions(subject: Subject, world: World, who: str) -> None:
    """Under vmap samples without a dimension cannot be joined either, be they so on all ranks or on one."""
    need_vmap(subject)
    scalars = who == "all" or world.rank == _odd_rank(world)
    x = torch.ones((1,) if scalars else (1, 2), device=world.device)
    words = ("dim", "0-d", "scalar", "shape", "size", "agree")
    gather = torch.vmap(lambda sample: subject(sample, launch(world)))
    expect_refused(world, lambda: gather(x), x, words, f"samples without a dimension on {who}")


@clause("AllGather.forward.args")
@ranks(2)
@cases(wrong=["one rank more", "another rank"])
@deadline(3)
def test_args_that_contradict_the_process_group(subject: Subject, world: World, wrong: str) -> None:
    """If args say another rank or another number of ranks than there are, an error says so."""
    need(gets_args(subject, world), NOT_HANDED)
    size = world.size + 1 if wrong == "one rank more" else world.size
    said = Launch(size, world.rank if wrong == "one rank more" else (world.rank + 1) % world.size)
    x = torch.full((2, 3), float(world.rank), device=world.device)
    words = ("rank", "size", "args", "group", "list", "length", "number")
    differing = f"args that say rank {said.local_rank} of {size}"
    expect_refused(world, lambda: subject(x, said), x, words, differing)


def _odd_rank(world: World) -> int:
    return world.size - 1
