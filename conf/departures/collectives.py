"""Collectives that PyTorch differentiates."""

from __future__ import annotations

import tempfile
from pathlib import Path

import torch
from torch import multiprocessing

from departures._probes import numbers


def gathered_gradients_transposed() -> bool:
    """``torch.distributed.nn.functional.all_gather`` on Gloo

    If incoming gradients are transposed, the gradient is wrong.
    [The package's page](published/torch.distributed.nn.md) has a script.
    """
    with tempfile.TemporaryDirectory() as folder:
        multiprocessing.spawn(_gather, args=(folder,), nprocs=2)
        return Path(folder, "said").read_text("utf-8") != "right"


def _gather(rank: int, folder: str) -> None:
    from torch import distributed
    from torch.distributed.nn.functional import all_gather

    distributed.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2)
    x = numbers(2, 3)
    grads = [(number + 1) * numbers(3, 2).detach().t() for number in range(2)]
    (actual,) = torch.autograd.grad(all_gather(x), x, grads)
    if rank == 0:  # both ranks ask for the same gradients
        Path(folder, "said").write_text("right" if torch.equal(actual, 2 * grads[0]) else "wrong", "utf-8")
    distributed.barrier()
    distributed.destroy_process_group()


DEPARTURES = (gathered_gradients_transposed,)
