"""AllGather under forward mode and vmap."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.autograd import forward_ad

from conformance import expect
from conformance.marks import cases, clause, ranks
from conformance.outcome import Deviation
from conformance.subject import Subject
from conformance.suite._gather_mistakes import join_mistakes, slice_mistakes
from conformance.suite._gathers import cotangents, gradient, held, launch, need_jvp, need_transforms, need_vmap
from conformance.world import World


def _gather(subject: Subject, world: World) -> Callable[[torch.Tensor], Any]:
    return lambda tensor: subject(tensor, launch(world))


def _same_tangent(world: World, came: torch.Tensor | None, tangents: list[torch.Tensor], what: str = "") -> None:
    name = f"the tangent of the result on rank {world.rank} of {world.size}{what}: all ranks' tangents joined"
    joined = torch.cat(tangents)
    if came is None:
        raise Deviation(name, None, expect.shown(joined), "the result comes without a tangent")
    local = [t if s == world.rank else torch.zeros_like(t) for s, t in enumerate(tangents)]
    mistakes = {
        "this rank's tangent alone, zeros for the others": torch.cat(local),
        **join_mistakes(tangents),
    }
    expect.equal(came, joined, name, mistakes)


@clause("AllGather.jvp.gather")
@ranks(1, 2, 3)
@cases(shape=[(3,), (2, 3)])
def test_tangents_are_joined(subject: Subject, world: World, shape: tuple[int, ...]) -> None:
    """In forward mode the result's tangent is the tangents of all ranks, joined in rank order."""
    need_jvp(subject)
    tensors, tangents = held(world, shape, torch.float64), held(world, shape, torch.float64, "tangent")
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(tensors[world.rank].clone(), tangents[world.rank].clone())
        primal, tangent = forward_ad.unpack_dual(_gather(subject, world)(dual))
    expect.equal(primal, torch.cat(tensors), f"the result in forward mode on rank {world.rank} of {world.size}")
    _same_tangent(world, tangent, tangents)


@clause("AllGather.jvp.gather")
@ranks(2, 3)
@cases(moving=["first", "last"])
def test_a_tangent_on_one_rank_reaches_all(subject: Subject, world: World, moving: str) -> None:
    """A tangent on one rank alone stands in that rank's rows on every rank, and in no other rows."""
    need_jvp(subject)
    mover = 0 if moving == "first" else world.size - 1
    x, given = held(world, (2, 2), torch.float64)[world.rank], held(world, (2, 2), torch.float64, "tangent")
    tangents = [t if s == mover else torch.zeros_like(t) for s, t in enumerate(given)]
    with forward_ad.dual_level():
        result = _gather(subject, world)(forward_ad.make_dual(x, tangents[world.rank].clone()))
        tangent = forward_ad.unpack_dual(result).tangent
    _same_tangent(world, tangent, tangents, f", when rank {mover} alone has one")


@clause("AllGather.jvp.gather")
@ranks(1, 2, 3)
def test_tangents_are_joined_under_func_jvp(subject: Subject, world: World) -> None:
    """torch.func.jvp gives the result with the tangents of all ranks."""
    need_jvp(subject)
    need_transforms(subject)
    tensors, tangents = held(world, (2, 3), torch.float64), held(world, (2, 3), torch.float64, "tangent")
    came, slope = torch.func.jvp(
        _gather(subject, world), (tensors[world.rank].clone(),), (tangents[world.rank].clone(),)
    )
    expect.equal(came, torch.cat(tensors), f"the result under torch.func.jvp on rank {world.rank} of {world.size}")
    _same_tangent(world, slope, tangents, " under torch.func.jvp")


@clause("AllGather.vmap.batched")
@ranks(1, 2, 3)
@cases(in_dim=[0, 1, 2, -1, -3])
def test_vmap_over_any_dimension(subject: Subject, world: World, in_dim: int) -> None:
    """torch.vmap over any dimension gives what joining sample by sample gives."""
    need_vmap(subject)
    tensors = held(world, (2, 3, 4), torch.float64)
    came = torch.vmap(_gather(subject, world), in_dims=in_dim)(tensors[world.rank].clone())
    _same_batch(world, came, [t.movedim(in_dim, 0) for t in tensors], f"in_dims={in_dim}")


@clause("AllGather.vmap.batched")
@ranks(1, 2)
@cases(samples=[1, 5])
def test_vmap_over_vectors(subject: Subject, world: World, samples: int) -> None:
    """torch.vmap over the rows of a matrix joins vectors, for one sample or several."""
    need_vmap(subject)
    tensors = held(world, (samples, 2), torch.float64)
    came = torch.vmap(_gather(subject, world))(tensors[world.rank].clone())
    _same_batch(world, came, tensors, f"{samples} samples that are vectors")


@clause("AllGather.vmap.batched")
@ranks(1, 2)
@cases(in_dims=[(0, 0), (1, 0), (2, 1)])
def test_vmap_within_vmap(subject: Subject, world: World, in_dims: tuple[int, int]) -> None:
    """Two vmaps, one inside the other, give what joining sample by sample gives."""
    need_vmap(subject)
    outer, inner = in_dims
    tensors = held(world, (2, 3, 4), torch.float64)
    twice = torch.vmap(torch.vmap(_gather(subject, world), in_dims=inner), in_dims=outer)
    expected = torch.cat([t.movedim(outer, 0).movedim(inner + 1, 1) for t in tensors], 2)
    what = f"the result of two vmaps on rank {world.rank} of {world.size}, in_dims={outer} and {inner}"
    expect.equal(twice(tensors[world.rank].clone()), expected, what)


@clause("AllGather.vmap.batched")
@ranks(1, 2)
def test_vmap_over_something_else(subject: Subject, world: World) -> None:
    """Where the tensor is the same for all samples, so is the result."""
    need_vmap(subject)
    tensors = held(world, (3,), torch.float64)
    shifts = torch.tensor([0.0, 1.0], dtype=torch.float64, device=world.device)
    shifted = torch.vmap(lambda tensor, shift: _gather(subject, world)(tensor) + shift, in_dims=(None, 0))
    came = shifted(tensors[world.rank].clone(), shifts)
    what = f"the result under vmap on rank {world.rank} of {world.size}, in_dims=None, plus a shift"
    expect.equal(came, torch.cat(tensors) + shifts[:, None], what)


@clause("AllGather.vmap.batched")
@ranks(2, 3)
@cases(in_dim=[0, 1])
def test_gradient_of_a_vmapped_gather(subject: Subject, world: World, in_dim: int) -> None:
    """The gradient after a vmapped gather is this rank's rows, as without vmap."""
    need_vmap(subject)
    x = held(world, (2, 3, 2), torch.float64)[world.rank].requires_grad_()
    shape = tuple(x.movedim(in_dim, 0).shape)
    table = cotangents(world, shape, torch.float64)
    came = torch.vmap(_gather(subject, world), in_dims=in_dim)(x)
    found = gradient(came, x, torch.cat(table[world.rank], 1))
    own = table[world.rank][world.rank].movedim(0, in_dim)
    moved = [[grad.movedim(0, in_dim) for grad in row] for row in table]
    what = f"the gradient on rank {world.rank} of {world.size} after a gather under vmap, in_dims={in_dim}"
    expect.equal(found, own, what, slice_mistakes(moved, world.rank))


def _same_batch(world: World, came: Any, samples_first: list[torch.Tensor], how: str) -> None:
    name = f"the result under vmap on rank {world.rank} of {world.size}, {how}: each sample's tensors joined"
    backwards = torch.cat(samples_first[::-1], 1)
    mistakes = {"joined in the reverse order of ranks": backwards} if world.size > 1 else {}
    expect.equal(came, torch.cat(samples_first, 1), name, mistakes)
