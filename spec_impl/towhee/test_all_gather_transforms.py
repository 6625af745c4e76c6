"""AllGather under forward mode and vmap."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.autograd import forward_ad

from conformance.kit import Deviation, NotApplicable, Subject, World, cases, clause, expect, ranks
from conformance.kit.gathers.expected import cotangents, gradient, need_jvp, need_transforms, need_vmap, rank_inputs
from conformance.kit.gathers.mistakes import join_mistakes
from spec_impl.towhee.spec import launch


def _gather(subject: Subject, world: World) -> Callable[[torch.Tensor], Any]:
    return lambda tensor: subject(tensor, launch(world))


def _expect_tangent(world: World, actual: torch.Tensor | None, tangents: list[torch.Tensor], what: str = "") -> None:
    name = f"the tangent of the result on rank {world.rank} of {world.size}{what}: all ranks' tangents joined"
    joined = torch.cat(tangents)
    if actual is None:
        raise Deviation(name, None, expect.shown(joined), "the result has no tangent")
    local = [t if s == world.rank else torch.zeros_like(t) for s, t in enumerate(tangents)]
    mistakes = {
        "this rank's tangent alone, zeros for the others": torch.cat(local),
        **join_mistakes(tangents),
    }
    expect.equal(actual, joined, name, mistakes)


@clause("AllGather.jvp.gather")
@ranks(1, 2, 3)
@cases(shape=[(3,), (2, 3)])
def test_tangents_are_joined(subject: Subject, world: World, shape: tuple[int, ...]) -> None:
    """In forward mode the result's tangent is the tangents of all ranks, joined in rank order."""
    need_jvp(subject)
    tensors, tangents = rank_inputs(world, shape, torch.float64), rank_inputs(world, shape, torch.float64, "tangent")
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(tensors[world.rank].clone(), tangents[world.rank].clone())
        tangent = forward_ad.unpack_dual(_gather(subject, world)(dual)).tangent
    _expect_tangent(world, tangent, tangents)


@clause("AllGather.jvp.gather")
@ranks(2, 3)
@cases(moving=["first", "last"])
def test_a_tangent_on_one_rank_reaches_all(subject: Subject, world: World, moving: str) -> None:
    """A tangent on one rank only is in that rank's rows on every rank, and in no other rows."""
    need_jvp(subject)
    mover = 0 if moving == "first" else world.size - 1
    x, given = (
        rank_inputs(world, (2, 2), torch.float64)[world.rank],
        rank_inputs(world, (2, 2), torch.float64, "tangent"),
    )
    tangents = [t if s == mover else torch.zeros_like(t) for s, t in enumerate(given)]
    with forward_ad.dual_level():
        result = _gather(subject, world)(forward_ad.make_dual(x, tangents[world.rank].clone()))
        tangent = forward_ad.unpack_dual(result).tangent
    _expect_tangent(world, tangent, tangents, f", when rank {mover} alone has one")


@clause("AllGather.jvp.gather")
@ranks(1, 2, 3)
def test_tangents_are_joined_under_func_jvp(subject: Subject, world: World) -> None:
    """torch.func.jvp gives the result with the tangents of all ranks."""
    need_jvp(subject)
    need_transforms(subject)
    tensors, tangents = rank_inputs(world, (2, 3), torch.float64), rank_inputs(world, (2, 3), torch.float64, "tangent")
    slope = torch.func.jvp(_gather(subject, world), (tensors[world.rank].clone(),), (tangents[world.rank].clone(),))[1]
    _expect_tangent(world, slope, tangents, " under torch.func.jvp")


def _sample_by_sample(gather: Callable[[torch.Tensor], Any], in_dim: int) -> Callable[[torch.Tensor], torch.Tensor]:
    """Compute what vmap must give: one call for each sample, the results stacked."""
    return lambda tensor: torch.stack([gather(sample) for sample in tensor.unbind(in_dim)])


def _expect_batch(world: World, actual: Any, expected: torch.Tensor, how: str) -> None:
    expect.equal(
        actual, expected, f"the result under vmap on rank {world.rank} of {world.size}, {how}, as sample by sample"
    )


@clause("AllGather.vmap.batched")
@ranks(1, 2, 3)
@cases(in_dim=[0, 1, 2, -1, -3])
def test_vmap_over_any_dimension(subject: Subject, world: World, in_dim: int) -> None:
    """torch.vmap over any dimension equals joining sample by sample."""
    need_vmap(subject)
    x, gather = rank_inputs(world, (2, 3, 4), torch.float64)[world.rank], _gather(subject, world)
    actual = torch.vmap(gather, in_dims=in_dim)(x)
    _expect_batch(world, actual, _sample_by_sample(gather, in_dim)(x), f"in_dims={in_dim}")


@clause("AllGather.vmap.batched")
@ranks(1, 2)
@cases(samples=[1, 5])
def test_vmap_over_vectors(subject: Subject, world: World, samples: int) -> None:
    """torch.vmap over the rows of a matrix joins vectors, for one sample or several."""
    need_vmap(subject)
    x, gather = rank_inputs(world, (samples, 2), torch.float64)[world.rank], _gather(subject, world)
    _expect_batch(world, torch.vmap(gather)(x), _sample_by_sample(gather, 0)(x), f"{samples} samples that are vectors")


@clause("AllGather.vmap.batched")
@ranks(1)
@cases(samples=[1, 5])
def test_vmap_over_scalars(subject: Subject, world: World, samples: int) -> None:
    """With one rank, which joins nothing, 0-d samples that are accepted are returned with their values."""
    need_vmap(subject)
    x, gather = rank_inputs(world, (samples,), torch.float64)[world.rank], _gather(subject, world)
    try:
        expected = _sample_by_sample(gather, 0)(x)
    except Exception as error:
        raise NotApplicable(f"it raises an error for 0-d tensors, on one rank too: {error}") from error
    _expect_batch(world, torch.vmap(gather)(x), expected, f"{samples} samples without dimensions")


@clause("AllGather.vmap.batched")
@ranks(1, 2)
@cases(in_dims=[(0, 0), (1, 0), (2, 1)])
def test_vmap_within_vmap(subject: Subject, world: World, in_dims: tuple[int, int]) -> None:
    """Two vmaps, one inside the other, give what joining sample by sample gives."""
    need_vmap(subject)
    outer, inner = in_dims
    x, gather = rank_inputs(world, (2, 3, 4), torch.float64)[world.rank], _gather(subject, world)
    actual = torch.vmap(torch.vmap(gather, in_dims=inner), in_dims=outer)(x)
    expected = _sample_by_sample(_sample_by_sample(gather, inner), outer)(x)
    _expect_batch(world, actual, expected, f"one inside the other, in_dims={outer} and {inner}")


@clause("AllGather.vmap.batched")
@ranks(1, 2)
def test_vmap_over_something_else(subject: Subject, world: World) -> None:
    """If the tensor is the same for all samples, so is the result."""
    need_vmap(subject)
    x, gather = rank_inputs(world, (3,), torch.float64)[world.rank], _gather(subject, world)
    shifts = torch.tensor([0.0, 1.0], dtype=torch.float64, device=world.device)
    actual = torch.vmap(lambda tensor, shift: gather(tensor) + shift, in_dims=(None, 0))(x, shifts)
    _expect_batch(world, actual, gather(x) + shifts[:, None], "in_dims=None, plus a shift")


@clause("AllGather.vmap.batched")
@ranks(1, 2, 3)
@cases(in_dim=[0, 1])
def test_gradient_of_a_vmapped_gather(subject: Subject, world: World, in_dim: int) -> None:
    """The gradient after a vmapped gather is that after joining sample by sample."""
    need_vmap(subject)
    x, gather = rank_inputs(world, (2, 3, 2), torch.float64)[world.rank].requires_grad_(), _gather(subject, world)
    vmapped, looped = torch.vmap(gather, in_dims=in_dim)(x), _sample_by_sample(gather, in_dim)(x)
    grad = cotangents(world, tuple(looped.shape), torch.float64)[world.rank][0]
    actual, expected = gradient(vmapped, x, grad.clone()), gradient(looped, x, grad.clone())
    name = f"the gradient on rank {world.rank} of {world.size} after a gather under vmap, in_dims={in_dim}"
    expect.equal(actual, expected, name)
