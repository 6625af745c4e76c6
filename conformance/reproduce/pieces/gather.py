"""The gradient of a gather on several ranks; a rank's loss weighs the entry of rank s with 10 * rank + s + 1."""

from __future__ import annotations

import os
import sys
import tempfile
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from conformance.reproduce.pieces.ending import finish
from conformance.reproduce.pieces.gathered import SIZE, WHAT, entries_of, expected_of


def rank_main(rank: int, folder: str, wrong: Any) -> None:
    """One rank."""
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=SIZE)
    x = (torch.arange(3.0, dtype=torch.float64) + rank).requires_grad_()
    losses = [(10 * rank + s + 1) * entry.sum() for s, entry in enumerate(entries_of(x, rank))]
    (gradient,) = torch.autograd.grad(torch.stack(losses).sum(), x)
    expected = torch.full_like(x, expected_of(rank))
    print(f"rank {rank} of {SIZE}: gradient {gradient.tolist()}, {WHAT} {expected.tolist()}", flush=True)
    wrong[rank] = int(not torch.allclose(gradient, expected))
    dist.barrier()
    dist.destroy_process_group()


def check() -> bool:
    """Start the ranks, and see whether any found its gradient wrong."""
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo" if sys.platform == "linux" else "lo0")
    wrong = mp.get_context("spawn").Array("i", SIZE)
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(rank_main, args=(folder, wrong), nprocs=SIZE)
    return any(wrong[:])


if __name__ == "__main__":
    finish(check)
