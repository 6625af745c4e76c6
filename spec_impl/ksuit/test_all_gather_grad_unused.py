"""AllGatherGradAutograd, backward: unused entries, and gathers that need no gradient.

A sum over ranks needs every rank: a rank whose loss is not connected to the gather never enters its backward pass, and
no implementation can change that. Required is this: if every rank's backward pass reaches the gather, it may do so by
any of the entries, only by entries with weight zero, or without any gradient.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Any

import torch

from conformance.kit import Subject, World, cases, clause, deadline, expect, ranks
from conformance.kit.gathers.expected import cotangents, entries, gradient, rank_inputs
from conformance.kit.observation import collectives


def _leaf(world: World) -> torch.Tensor:
    return rank_inputs(world, (4,), torch.float64)[world.rank].requires_grad_()


def _expect_unused_as_zero(
    subject: Subject, world: World, actual: torch.Tensor | None, grads: Sequence[torch.Tensor], what: str
) -> None:
    """Assert that a gradient is the same as with zeros for every output that was not used."""
    x = _leaf(world)
    expected = gradient(entries(subject, world, x), x, [grad.clone() for grad in grads])
    zeros = torch.zeros_like(x)
    name = f"the gradient of x on rank {world.rank} of {world.size} {what}, compared with zeros for unused entries"
    expect.close(zeros if actual is None else actual, zeros if expected is None else expected, name)


def _only(grads: Sequence[torch.Tensor], used: Container[int]) -> list[torch.Tensor]:
    return [grad if place in used else torch.zeros_like(grad) for place, grad in enumerate(grads)]


@clause("AllGatherGradAutograd.backward.unused")
@ranks(2, 3, 4)
@cases(step=[0, 1, -1])
@deadline(5)
def test_each_rank_uses_one_entry(subject: Subject, world: World, step: int) -> None:
    """If rank s uses a single entry, its own or a neighbour's, the others count as zero."""
    x, grads = _leaf(world), cotangents(world, (4,), torch.float64)[world.rank]
    used = (world.rank + step) % world.size
    actual = gradient(entries(subject, world, x)[used], x, grads[used].clone())
    _expect_unused_as_zero(subject, world, actual, _only(grads, {used}), f"when rank s uses entry s{step:+d} alone")


@clause("AllGatherGradAutograd.backward.unused")
@ranks(2, 3, 4)
@cases(place=["first", "last"])
@deadline(5)
def test_all_ranks_use_the_same_entry(subject: Subject, world: World, place: str) -> None:
    """If all ranks use the same single entry, the other ranks' gradients are zero."""
    used = 0 if place == "first" else world.size - 1
    x, grads = _leaf(world), cotangents(world, (4,), torch.float64)[world.rank]
    actual = gradient(entries(subject, world, x)[used], x, grads[used].clone())
    _expect_unused_as_zero(subject, world, actual, _only(grads, {used}), f"when every rank uses entry {used} alone")


@clause("AllGatherGradAutograd.backward.unused")
@ranks(2, 3, 4)
@cases(user=["first", "last"])
@deadline(5)
def test_one_rank_has_a_loss_and_the_others_weigh_zero(subject: Subject, world: World, user: str) -> None:
    """If only one rank has a loss and the others multiply theirs by zero, nothing hangs."""
    teacher = 0 if user == "first" else world.size - 1
    x, grads = _leaf(world), cotangents(world, (4,), torch.float64)[world.rank]
    weight = 1.0 if world.rank == teacher else 0.0
    pairs = zip(grads, entries(subject, world, x), strict=True)
    loss = torch.stack([(weight * grad * entry).sum() for grad, entry in pairs]).sum()
    actual = gradient(loss, x, torch.ones_like(loss))
    used = range(world.size) if world.rank == teacher else ()
    _expect_unused_as_zero(subject, world, actual, _only(grads, used), f"when rank {teacher} alone has a loss")


@clause("AllGatherGradAutograd.backward.unused")
@ranks(2, 3)
@deadline(5)
def test_numbers_of_used_entries_differ_between_ranks(subject: Subject, world: World) -> None:
    """Rank s uses its first s + 1 entries, and the others count as zero."""
    x, grads = _leaf(world), cotangents(world, (4,), torch.float64)[world.rank]
    many = world.rank + 1
    actual = gradient(entries(subject, world, x)[:many], x, [grad.clone() for grad in grads[:many]])
    _expect_unused_as_zero(subject, world, actual, _only(grads, range(many)), "when rank s uses entries 0 to s")


class _NoGradient(torch.autograd.Function):
    """Uses its inputs, and returns no gradient for them: backward before it still runs."""

    @staticmethod
    def forward(ctx: Any, *inputs: torch.Tensor) -> torch.Tensor:
        return torch.zeros((), dtype=inputs[0].dtype, device=inputs[0].device)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[None, ...]:
        return (None,) * len(ctx.needs_input_grad)


@clause("AllGatherGradAutograd.backward.unused")
@ranks(1, 2, 3)
@deadline(5)
def test_a_rank_without_any_gradient_takes_part(subject: Subject, world: World) -> None:
    """If rank 0 reaches the gather with no gradient for any entry, the losses of other ranks still count."""
    x, grads = _leaf(world), cotangents(world, (4,), torch.float64)[world.rank]
    gathered = entries(subject, world, x)
    if world.rank == 0:
        actual = gradient(_NoGradient.apply(*gathered), x, torch.ones((), dtype=x.dtype, device=x.device))
    else:
        actual = gradient(gathered, x, [grad.clone() for grad in grads])
    used = range(world.size) if world.rank else ()
    _expect_unused_as_zero(subject, world, actual, _only(grads, used), "when rank 0 has no gradient for any entry")


@clause("AllGatherGradAutograd.backward.unused")
@ranks(1, 2, 3)
@deadline(5)
def test_a_gather_that_no_rank_uses_changes_nothing(subject: Subject, world: World) -> None:
    """If no rank uses what was gathered, the gradient of x is that of its other uses."""
    x = _leaf(world)
    entries(subject, world, x)
    (3 * x).sum().backward()
    expect.close(x.grad, torch.full_like(x, 3).detach(), f"the gradient of x on rank {world.rank}, used as 3 x alone")


@clause("AllGatherGradAutograd.backward.no-grad")
@ranks(1, 2, 3)
@cases(dtype=["float32", "int64"], mode=["plain", "no_grad"])
def test_no_gradient_wanted_none_required(subject: Subject, world: World, dtype: str, mode: str) -> None:
    """Entries require no gradient if x requires none, or gradients are switched off."""
    x = rank_inputs(world, (3,), getattr(torch, dtype))[world.rank]
    if mode == "no_grad" and x.is_floating_point():
        x.requires_grad_()
    with torch.set_grad_enabled(mode == "plain"):
        gathered = entries(subject, world, x)
    wanting = [place for place, entry in enumerate(gathered) if entry.requires_grad]
    where = f"rank {world.rank} of {world.size}"
    expect.equal(wanting, [], f"entries that require a gradient on {where}, though x needs none")


@clause("AllGatherGradAutograd.backward.no-grad")
@ranks(1, 2, 3)
@deadline(5)
def test_no_gradient_wanted_no_collective(subject: Subject, world: World) -> None:
    """If x needs no gradient, a backward pass through what was gathered starts no collective."""
    weight = torch.full((3,), 2.0, device=world.device, requires_grad=True)
    gathered = entries(subject, world, rank_inputs(world, (3,), torch.float32)[world.rank])
    total = torch.stack([entry.detach().clone() for entry in gathered]).sum(0)
    loss = torch.stack([(weight * entry).sum() for entry in gathered]).sum()
    with collectives.counted() as calls:
        loss.backward()
    where = f"rank {world.rank} of {world.size}"
    expect.equal(calls, [], f"collectives in backward on {where}, though x needs no gradient")
    expect.close(weight.grad, total, f"the gradient of a weight of rank {world.rank}'s loss")
