"""Twenty tests of collectives, written for PyTorch's MultiProcessTestCase; with ``threads``, for MultiThreadedTestCase.

python benchmarks/peers/ported/before.py [threads]
"""

from __future__ import annotations

import math
import sys
import unittest

import torch
import torch.distributed as dist
from torch.testing._internal.common_distributed import MultiProcessTestCase, MultiThreadedTestCase

THREADS = sys.argv[1:] == ["threads"]


class CollectivesTest(MultiThreadedTestCase if THREADS else MultiProcessTestCase):
    """What collectives do on two ranks."""

    @property
    def world_size(self) -> int:
        """The number of ranks."""
        return 2

    def setUp(self) -> None:
        """Start the ranks."""
        super().setUp()
        self._spawn_threads() if THREADS else self._spawn_processes()

    def _join(self) -> None:
        if not THREADS:
            store = dist.FileStore(self.file_name, self.world_size)
            dist.init_process_group("gloo", store=store, rank=self.rank, world_size=self.world_size)

    def test_all_reduce_adds_up(self) -> None:
        self._join()
        x = torch.full((3,), float(self.rank))
        dist.all_reduce(x)
        self.assertEqual(x, torch.full((3,), sum(range(self.world_size)) + 0.0))

    def test_all_reduce_takes_the_largest(self) -> None:
        self._join()
        x = torch.tensor([self.rank, -self.rank])
        dist.all_reduce(x, dist.ReduceOp.MAX)
        self.assertEqual(x, torch.tensor([self.world_size - 1, 0]))

    def test_all_reduce_takes_the_smallest(self) -> None:
        self._join()
        x = torch.tensor([self.rank, -self.rank])
        dist.all_reduce(x, dist.ReduceOp.MIN)
        self.assertEqual(x, torch.tensor([0, 1 - self.world_size]))

    def test_all_reduce_multiplies(self) -> None:
        self._join()
        x = torch.tensor([self.rank + 1.0])
        dist.all_reduce(x, dist.ReduceOp.PRODUCT)
        self.assertEqual(x, torch.tensor([float(math.factorial(self.world_size))]))

    def test_all_reduce_of_nothing_is_nothing(self) -> None:
        self._join()
        x = torch.empty(0)
        dist.all_reduce(x)
        self.assertEqual(x.numel(), 0)

    def test_all_reduce_in_the_background(self) -> None:
        self._join()
        x = torch.ones(4)
        work = dist.all_reduce(x, async_op=True)
        work.wait()
        self.assertEqual(x, torch.full((4,), self.world_size + 0.0))

    def test_broadcast_from_the_first(self) -> None:
        self._join()
        x = torch.full((2, 2), self.rank)
        dist.broadcast(x, 0)
        self.assertEqual(x, torch.zeros(2, 2, dtype=torch.int64))

    def test_broadcast_from_the_last(self) -> None:
        self._join()
        x = torch.full((2, 2), self.rank)
        dist.broadcast(x, self.world_size - 1)
        self.assertEqual(x, torch.full((2, 2), self.world_size - 1))

    def test_all_gather_keeps_the_order(self) -> None:
        self._join()
        parts = [torch.empty(2) for _ in range(self.world_size)]
        dist.all_gather(parts, torch.full((2,), float(self.rank)))
        self.assertEqual(torch.stack(parts)[:, 0], torch.arange(float(self.world_size)))

    def test_all_gather_of_whole_numbers(self) -> None:
        self._join()
        parts = [torch.empty(1, dtype=torch.int32) for _ in range(self.world_size)]
        dist.all_gather(parts, torch.tensor([self.rank], dtype=torch.int32))
        self.assertEqual([part.item() for part in parts], list(range(self.world_size)))

    def test_all_gather_object(self) -> None:
        self._join()
        found = [None] * self.world_size
        dist.all_gather_object(found, {"rank": self.rank})
        self.assertEqual(found, [{"rank": rank} for rank in range(self.world_size)])

    def test_scatter(self) -> None:
        self._join()
        x, parts = torch.empty(2), [torch.full((2,), float(rank)) for rank in range(self.world_size)]
        dist.scatter(x, parts if self.rank == 0 else None, src=0)
        self.assertEqual(x, torch.full((2,), float(self.rank)))

    def test_gather(self) -> None:
        self._join()
        parts = [torch.empty(1) for _ in range(self.world_size)] if self.rank == 0 else None
        dist.gather(torch.tensor([self.rank + 0.0]), parts, dst=0)
        wanted = list(range(self.world_size)) if self.rank == 0 else []
        self.assertEqual([part.item() for part in parts or []], wanted)

    def test_barrier(self) -> None:
        self._join()
        for _ in range(3):
            dist.barrier()
        self.assertEqual(dist.is_initialized(), True)

    def test_every_rank_knows_its_place(self) -> None:
        self._join()
        self.assertEqual((dist.get_rank(), dist.get_world_size()), (self.rank, self.world_size))

    def test_a_sum_of_squares(self) -> None:
        self._join()
        x = torch.arange(self.rank * 2.0, self.rank * 2 + 2)
        total = x.square().sum()
        dist.all_reduce(total)
        self.assertEqual(total, torch.arange(self.world_size * 2.0).square().sum())

    def test_a_mean_over_uneven_parts(self) -> None:
        self._join()
        x = torch.ones(self.rank + 1)
        found = torch.tensor([x.sum(), x.numel()])
        dist.all_reduce(found)
        self.assertEqual(found[0] / found[1], torch.tensor(1.0))

    def test_averaged_gradients_are_alike(self) -> None:
        self._join()
        weight = torch.ones(3, requires_grad=True)
        (weight * float(self.rank)).sum().backward()
        dist.all_reduce(weight.grad)
        self.assertEqual(weight.grad / self.world_size, torch.full((3,), (self.world_size - 1) / 2))

    def test_a_gather_of_rows(self) -> None:
        self._join()
        rows = [torch.empty(1, 3) for _ in range(self.world_size)]
        dist.all_gather(rows, torch.full((1, 3), float(self.rank)))
        self.assertEqual(torch.cat(rows).shape, torch.Size([self.world_size, 3]))

    def test_the_first_rank_decides(self) -> None:
        self._join()
        choice = torch.tensor([7 if self.rank == 0 else -1])
        dist.broadcast(choice, 0)
        self.assertEqual(choice.item(), 7)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=0)
