"""``python -m benchmarks.simulated 256 1024``: the gathers' mathematics in worlds of many ranks, as a simulation.

Every rank is a thread of this process; collectives copy between them. No process, no network, no isolation: what it
shows is that values and gradients are right for that many ranks, and nothing about running them.
"""

from __future__ import annotations

import sys
import threading
import time
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch
import torch.distributed as dist

from spec_impl.ksuit import AllGatherGradAutograd
from spec_impl.towhee import AllGather

WIDTH = 3
STACK = 512 << 10
#: Each gather with the tensor and Towhee's arguments, as one tensor of all entries; whether its gradient is the sum.
GATHERS = {
    "AllGatherGradAutograd": (lambda x, _: torch.stack(AllGatherGradAutograd.apply(x)), True),
    "AllGather": (lambda x, args: AllGather.apply(x, args), False),
}


class Simulated:
    """The collectives that the reference uses, between threads that take the place of ranks."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.own = threading.local()
        self.offered: list[Any] = [None] * size
        self.barrier = threading.Barrier(size)

    def get_rank(self, group: Any = None) -> int:
        """The thread's rank."""
        return int(self.own.rank)

    def get_world_size(self, group: Any = None) -> int:
        """How many threads there are."""
        return self.size

    def exchange(self, value: Any) -> list[Any]:
        """Every rank's value, in rank order."""
        self.offered[self.own.rank] = value
        self.barrier.wait()
        values = list(self.offered)
        self.barrier.wait()
        return values

    def all_gather(self, places: list[torch.Tensor], x: torch.Tensor, group: Any = None) -> None:
        """Copy every rank's tensor."""
        for place, value in zip(places, self.exchange(x), strict=True):
            place.copy_(value)
        self.barrier.wait()

    def reduce_scatter(self, total: torch.Tensor, parts: list[torch.Tensor], group: Any = None) -> None:
        """Add up what every rank has for this one."""
        rank = self.own.rank
        total.copy_(torch.stack([other[rank] for other in self.exchange(parts)]).sum(0))
        self.barrier.wait()

    def all_to_all_single(self, arrived: torch.Tensor, packed: torch.Tensor, group: Any = None) -> None:
        """Take this rank's part of every rank's tensor."""
        rank, width = self.own.rank, packed.numel() // self.size
        everyone = self.exchange(packed)
        torch.cat([other[rank * width : (rank + 1) * width] for other in everyone], out=arrived)
        self.barrier.wait()


def check(rank: int, size: int, gather: Any, sums: bool) -> float:
    """One rank's forward and backward; the largest error of its values and its gradient.

    Rank s weighs entry r with (s + 1) (r + 1): summed over s that is (r + 1) N (N + 1) / 2.
    """
    x = torch.full((WIDTH,), float(rank), dtype=torch.float64, requires_grad=True)
    entries = gather(x, SimpleNamespace(local_rank=rank, world_size=size)).view(size, WIDTH)
    weights = (rank + 1) * torch.arange(1, size + 1, dtype=torch.float64)
    (weights[:, None] * entries).sum().backward()
    values = torch.arange(size, dtype=torch.float64)[:, None].expand(size, WIDTH)
    gradient = (rank + 1) * (size * (size + 1) / 2 if sums else rank + 1)
    assert x.grad is not None
    return max(float((entries.detach() - values).abs().max()), float((x.grad - gradient).abs().max()) / gradient)


def run(size: int, gather: Any, sums: bool) -> tuple[float, float]:
    """All ranks of one world: the largest error of any of them, and seconds."""
    world = Simulated(size)
    errors: list[float] = [float("inf")] * size

    def be(rank: int) -> None:
        world.own.rank = rank
        try:
            errors[rank] = check(rank, size, gather, sums)
        except threading.BrokenBarrierError:
            pass  # another rank has failed
        except BaseException:
            world.barrier.abort()
            raise

    names = ("get_rank", "get_world_size", "all_gather", "reduce_scatter", "all_to_all_single")
    start = time.perf_counter()
    with mock.patch.multiple(dist, **{name: getattr(world, name) for name in names}):
        threads = [threading.Thread(target=be, args=(rank,)) for rank in range(size)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return max(errors), time.perf_counter() - start


def main() -> int:
    """Say, for every size, how far off the gathers are."""
    torch.set_num_threads(1)
    threading.stack_size(STACK)
    worst = 0.0
    for size in map(int, sys.argv[1:] or ["256"]):
        for name, (gather, sums) in GATHERS.items():
            error, seconds = run(size, gather, sums)
            worst = max(worst, error)
            print(f"{name}: {size} simulated ranks, largest relative error {error:g}, {seconds:.1f} s")
    return int(worst > 1e-9)


if __name__ == "__main__":
    sys.exit(main())
