"""The same twenty tests with this package: ``pytest benchmarks/peers/ported/test_after.py``."""

from __future__ import annotations

import math

import pytest
import torch
import torch.distributed as dist

from conformance import World

pytestmark = pytest.mark.ranks(2)


def test_all_reduce_adds_up(world: World) -> None:
    x = torch.full((3,), float(world.rank))
    dist.all_reduce(x)
    torch.testing.assert_close(x, torch.full((3,), sum(range(world.size)) + 0.0))


def test_all_reduce_takes_the_largest(world: World) -> None:
    x = torch.tensor([world.rank, -world.rank])
    dist.all_reduce(x, dist.ReduceOp.MAX)
    torch.testing.assert_close(x, torch.tensor([world.size - 1, 0]))


def test_all_reduce_takes_the_smallest(world: World) -> None:
    x = torch.tensor([world.rank, -world.rank])
    dist.all_reduce(x, dist.ReduceOp.MIN)
    torch.testing.assert_close(x, torch.tensor([0, 1 - world.size]))


def test_all_reduce_multiplies(world: World) -> None:
    x = torch.tensor([world.rank + 1.0])
    dist.all_reduce(x, dist.ReduceOp.PRODUCT)
    torch.testing.assert_close(x, torch.tensor([float(math.factorial(world.size))]))


def test_all_reduce_of_nothing_is_nothing(world: World) -> None:
    x = torch.empty(0)
    dist.all_reduce(x)
    assert x.numel() == 0


def test_all_reduce_in_the_background(world: World) -> None:
    x = torch.ones(4)
    work = dist.all_reduce(x, async_op=True)
    work.wait()
    torch.testing.assert_close(x, torch.full((4,), world.size + 0.0))


def test_broadcast_from_the_first(world: World) -> None:
    x = torch.full((2, 2), world.rank)
    dist.broadcast(x, 0)
    torch.testing.assert_close(x, torch.zeros(2, 2, dtype=torch.int64))


def test_broadcast_from_the_last(world: World) -> None:
    x = torch.full((2, 2), world.rank)
    dist.broadcast(x, world.size - 1)
    torch.testing.assert_close(x, torch.full((2, 2), world.size - 1))


def test_all_gather_keeps_the_order(world: World) -> None:
    parts = [torch.empty(2) for _ in range(world.size)]
    dist.all_gather(parts, torch.full((2,), float(world.rank)))
    torch.testing.assert_close(torch.stack(parts)[:, 0], torch.arange(float(world.size)))


def test_all_gather_of_whole_numbers(world: World) -> None:
    parts = [torch.empty(1, dtype=torch.int32) for _ in range(world.size)]
    dist.all_gather(parts, torch.tensor([world.rank], dtype=torch.int32))
    assert [part.item() for part in parts] == list(range(world.size))


def test_all_gather_object(world: World) -> None:
    found = [None] * world.size
    dist.all_gather_object(found, {"rank": world.rank})
    assert found == [{"rank": rank} for rank in range(world.size)]


def test_scatter(world: World) -> None:
    x, parts = torch.empty(2), [torch.full((2,), float(rank)) for rank in range(world.size)]
    dist.scatter(x, parts if world.rank == 0 else None, src=0)
    torch.testing.assert_close(x, torch.full((2,), float(world.rank)))


def test_gather(world: World) -> None:
    parts = [torch.empty(1) for _ in range(world.size)] if world.rank == 0 else None
    dist.gather(torch.tensor([world.rank + 0.0]), parts, dst=0)
    wanted = list(range(world.size)) if world.rank == 0 else []
    assert [part.item() for part in parts or []] == wanted


def test_barrier(world: World) -> None:
    for _ in range(3):
        dist.barrier()
    assert dist.is_initialized()


def test_every_rank_knows_its_place(world: World) -> None:
    assert (dist.get_rank(), dist.get_world_size()) == (world.rank, world.size)


def test_a_sum_of_squares(world: World) -> None:
    x = torch.arange(world.rank * 2.0, world.rank * 2 + 2)
    total = x.square().sum()
    dist.all_reduce(total)
    torch.testing.assert_close(total, torch.arange(world.size * 2.0).square().sum())


def test_a_mean_over_uneven_parts(world: World) -> None:
    x = torch.ones(world.rank + 1)
    found = torch.tensor([x.sum(), x.numel()])
    dist.all_reduce(found)
    torch.testing.assert_close(found[0] / found[1], torch.tensor(1.0))


def test_averaged_gradients_are_alike(world: World) -> None:
    weight = torch.ones(3, requires_grad=True)
    (weight * float(world.rank)).sum().backward()
    dist.all_reduce(weight.grad)
    torch.testing.assert_close(weight.grad / world.size, torch.full((3,), (world.size - 1) / 2))


def test_a_gather_of_rows(world: World) -> None:
    rows = [torch.empty(1, 3) for _ in range(world.size)]
    dist.all_gather(rows, torch.full((1, 3), float(world.rank)))
    assert torch.cat(rows).shape == torch.Size([world.size, 3])


def test_the_first_rank_decides(world: World) -> None:
    choice = torch.tensor([7 if world.rank == 0 else -1])
    dist.broadcast(choice, 0)
    assert choice.item() == 7
