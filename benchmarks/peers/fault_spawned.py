"""torch.multiprocessing.spawn, called for each test by hand. python benchmarks/peers/fault_spawned.py WORLD FAULT"""

from __future__ import annotations

import time
from datetime import timedelta

import fault_cases as cases
import torch.distributed as dist
import torch.multiprocessing as mp
from check import free_port


def on_rank(rank: int, port: int, elements: int) -> None:
    """Join a group, and make the call."""
    store = dist.TCPStore("127.0.0.1", port, cases.WORLD, is_master=rank == 0)
    limit = timedelta(seconds=cases.DEADLINE)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=cases.WORLD, timeout=limit)
    cases.one_call(rank, cases.WORLD, elements)


if __name__ == "__main__":
    for name, elements in cases.SIZES.items():
        began, word = time.perf_counter(), "pass"
        try:
            mp.spawn(on_rank, (free_port(), elements), nprocs=cases.WORLD)
        except Exception:
            word = "error"
        cases.said(name, word, time.perf_counter() - began)
