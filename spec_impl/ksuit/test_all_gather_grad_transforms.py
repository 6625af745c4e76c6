"""AllGatherGradAutograd under forward mode and vmap."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.autograd import forward_ad

from conformance.kit import Deviation, Subject, World, cases, clause, expect, ranks
from conformance.kit.gathers.expected import (
    cotangents,
    entries,
    gradient,
    need_jvp,
    need_transforms,
    need_vmap,
    rank_inputs,
)
from conformance.kit.gathers.mistakes import entry_mistakes


def _expect_tangents(world: World, actual: Sequence[torch.Tensor | None], expected: Sequence[torch.Tensor]) -> None:
    for place, (tangent, wanted) in enumerate(zip(actual, expected, strict=True)):
        what = f"the tangent of entry {place} on rank {world.rank} of {world.size}, which is rank {place}'s tangent"
        if tangent is None:
            raise Deviation(what, None, expect.shown(wanted), "the entries have no tangent")
        mistakes = {"zeros": torch.zeros_like(wanted)} | {
            f"this rank's own tangent, in place of rank {place}'s": expected[world.rank],
            **entry_mistakes(expected, place),
        }
        expect.equal(tangent, wanted, what, mistakes)


@clause("AllGatherGradAutograd.jvp.gather")
@ranks(1, 2, 3)
@cases(shape=[(3,), (2, 3), ()])
def test_tangents_are_gathered(subject: Subject, world: World, shape: tuple[int, ...]) -> None:
    """In forward mode the tangent of entry s is that of rank s."""
    need_jvp(subject)
    tensors, tangents = rank_inputs(world, shape, torch.float64), rank_inputs(world, shape, torch.float64, "tangent")
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(tensors[world.rank].clone(), tangents[world.rank].clone())
        unpacked = [forward_ad.unpack_dual(entry) for entry in entries(subject, world, dual)]
    _expect_tangents(world, [entry.tangent for entry in unpacked], tangents)


@clause("AllGatherGradAutograd.jvp.gather")
@ranks(2, 3)
@cases(moving=["first", "last"])
def test_a_tangent_on_one_rank_reaches_all(subject: Subject, world: World, moving: str) -> None:
    """A tangent on one rank only is in that rank's entry on every rank, and in no other entry."""
    need_jvp(subject)
    mover = 0 if moving == "first" else world.size - 1
    x = rank_inputs(world, (3,), torch.float64)[world.rank]
    tangents = [t if s == mover else t * 0 for s, t in enumerate(rank_inputs(world, (3,), torch.float64, "tangent"))]
    with forward_ad.dual_level():
        actual = entries(subject, world, forward_ad.make_dual(x, tangents[world.rank].clone()))
        unpacked = [forward_ad.unpack_dual(entry).tangent for entry in actual]
    _expect_tangents(world, unpacked, [t + 0 for t in tangents])


@clause("AllGatherGradAutograd.jvp.gather")
@ranks(1, 2, 3)
def test_tangents_are_gathered_under_func_jvp(subject: Subject, world: World) -> None:
    """torch.func.jvp gives every entry with the tangent of its rank."""
    need_jvp(subject)
    need_transforms(subject)
    tensors, tangents = rank_inputs(world, (2, 3), torch.float64), rank_inputs(world, (2, 3), torch.float64, "tangent")
    slopes = torch.func.jvp(
        lambda x: entries(subject, world, x), (tensors[world.rank].clone(),), (tangents[world.rank].clone(),)
    )[1]
    _expect_tangents(world, slopes, tangents)


Gather = Callable[[torch.Tensor], tuple[torch.Tensor, ...]]


def _sample_by_sample(gather: Gather, in_dim: int) -> Gather:
    """Compute what vmap must give: one call for each sample, the results stacked."""

    def loop(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        calls = [gather(sample) for sample in x.unbind(in_dim)]
        return tuple(torch.stack(samples) for samples in zip(*calls, strict=True))

    return loop


def _expect_batches(world: World, actual: Any, expected: Sequence[torch.Tensor], how: str) -> None:
    expect.equal(len(actual), len(expected), f"number of entries under vmap, {how}")
    for place, (entry, wanted) in enumerate(zip(actual, expected, strict=True)):
        name = f"entry {place} under vmap on rank {world.rank} of {world.size}, {how}, as sample by sample"
        expect.equal(entry, wanted, name, entry_mistakes(expected, place))


@clause("AllGatherGradAutograd.vmap.batched")
@ranks(1, 2, 3)
@cases(in_dim=[0, 1, 2, -1, -3])
def test_vmap_over_any_dimension(subject: Subject, world: World, in_dim: int) -> None:
    """torch.vmap over any dimension gives, entry for entry, what gathering sample by sample gives."""
    need_vmap(subject)
    x = rank_inputs(world, (2, 3, 4), torch.float64)[world.rank]
    actual = torch.vmap(lambda t: entries(subject, world, t), in_dims=in_dim)(x)
    expected = _sample_by_sample(lambda t: entries(subject, world, t), in_dim)(x)
    _expect_batches(world, actual, expected, f"in_dims={in_dim}")


@clause("AllGatherGradAutograd.vmap.batched")
@ranks(1, 2)
@cases(samples=[1, 5])
def test_vmap_over_scalars(subject: Subject, world: World, samples: int) -> None:
    """torch.vmap over a vector gathers 0-d samples, one or several."""
    need_vmap(subject)
    x = rank_inputs(world, (samples,), torch.float64)[world.rank]
    actual = torch.vmap(lambda t: entries(subject, world, t))(x)
    expected = _sample_by_sample(lambda t: entries(subject, world, t), 0)(x)
    _expect_batches(world, actual, expected, f"{samples} samples without dimensions")


@clause("AllGatherGradAutograd.vmap.batched")
@ranks(1, 2)
@cases(in_dims=[(0, 0), (1, 0), (2, 1)])
def test_vmap_within_vmap(subject: Subject, world: World, in_dims: tuple[int, int]) -> None:
    """Two vmaps, one inside the other, give what gathering sample by sample gives."""
    need_vmap(subject)
    outer, inner = in_dims
    x = rank_inputs(world, (2, 3, 4), torch.float64)[world.rank]
    actual = torch.vmap(torch.vmap(lambda t: entries(subject, world, t), in_dims=inner), in_dims=outer)(x)
    expected = _sample_by_sample(_sample_by_sample(lambda t: entries(subject, world, t), inner), outer)(x)
    _expect_batches(world, actual, expected, f"one inside the other, in_dims={outer} and {inner}")


@clause("AllGatherGradAutograd.vmap.batched")
@ranks(1, 2)
def test_vmap_over_something_else(subject: Subject, world: World) -> None:
    """If x is the same for all samples, so is every entry."""
    need_vmap(subject)
    x = rank_inputs(world, (3,), torch.float64)[world.rank]
    shifts = torch.tensor([0.0, 1.0], dtype=torch.float64, device=world.device)

    def shifted(tensor: torch.Tensor, shift: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(entry + shift for entry in entries(subject, world, tensor))

    actual = torch.vmap(shifted, in_dims=(None, 0))(x, shifts)
    expected = [entry + shifts[:, None] for entry in entries(subject, world, x)]
    _expect_batches(world, actual, expected, "in_dims=None, plus a shift")


@clause("AllGatherGradAutograd.vmap.batched")
@ranks(1, 2, 3)
@cases(in_dim=[0, 1])
def test_gradient_of_a_vmapped_gather(subject: Subject, world: World, in_dim: int) -> None:
    """The gradient of x after a vmapped gather is that after gathering sample by sample."""
    need_vmap(subject)
    x = rank_inputs(world, (2, 3), torch.float64)[world.rank].requires_grad_()
    grads = [grad.movedim(in_dim, 0) for grad in cotangents(world, (2, 3), torch.float64)[world.rank]]
    actual = gradient(torch.vmap(lambda t: entries(subject, world, t), in_dims=in_dim)(x), x, grads)
    looped = _sample_by_sample(lambda t: entries(subject, world, t), in_dim)(x)
    expected = gradient(looped, x, [grad.clone() for grad in grads])
    name = f"the gradient of x on rank {world.rank} of {world.size}, gathered under vmap, in_dims={in_dim}"
    expect.that(actual is not None and expected is not None, name, actual, expected)
    assert expected is not None
    expect.close(actual, expected, name)
