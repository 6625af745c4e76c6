"""By hand: torch.multiprocessing.spawn for every test.

python benchmarks/peers/spawned.py WORLD CHECKS
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import torch.distributed as dist
import torch.multiprocessing as mp
from check import free_port, join, one_check


def on_rank(rank: int, world: int, port: int) -> None:
    """One rank of one test."""
    join(rank, world, port)
    one_check(rank, world)
    dist.destroy_process_group()


if __name__ == "__main__":
    for _ in range(int(sys.argv[2])):
        mp.spawn(on_rank, (int(sys.argv[1]), free_port()), nprocs=int(sys.argv[1]))
