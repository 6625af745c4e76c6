"""Which GPU a rank takes, and what is missing where a world cannot have its GPUs."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence


def device_of(device: str, local_rank: int, gpus: int) -> str:
    """The device of one rank: ranks of one machine take its GPUs in turn.

    >>> device_of("cuda", 1, 2), device_of("cuda", 2, 2), device_of("cuda:1", 0, 2), device_of("cpu", 3, 0)
    ('cuda:1', 'cuda:0', 'cuda:1', 'cpu')
    """
    return f"cuda:{local_rank % gpus}" if device == "cuda" and gpus else device


def missing(
    size: int,
    group: bool,
    *,
    backend: str,
    device: str,
    nccl: bool,
    gpus: Sequence[int],
    environment: Mapping[str, str] = os.environ,
) -> str:
    """Why a world cannot be had for want of GPUs; empty where it can.

    Args:
        size: number of ranks.
        group: whether they need a process group.
        backend: gloo or nccl.
        device: cpu, cuda or cuda:N.
        nccl: whether this PyTorch has NCCL.
        gpus: the GPUs of each rank's machine that it may have for itself: for rank r, entry r.
        environment: where NCCL_MULTI_RANK_GPU_ENABLE stands.

    >>> missing(2, True, backend="nccl", device="cuda", nccl=True, gpus=[1, 0], environment={})
    'needs 2 GPUs, found 1'
    """
    if device == "cpu":
        return "NCCL moves tensors of GPUs alone: give --device cuda" if backend == "nccl" and group else ""
    found = sum(gpus[:size])
    own = backend == "nccl" and group and environment.get("NCCL_MULTI_RANK_GPU_ENABLE") != "1"
    place = int(device.partition(":")[2] or 0)
    needed = max(size if own else 1, place + 1)
    if device != "cuda" and own and size > 1:
        return f"NCCL needs a GPU for each of {size} ranks: give --device cuda"
    if found < needed:
        return f"needs {needed} GPU{'s' * (needed > 1)}, found {found}"
    if backend == "nccl" and group and not nccl:
        return "this PyTorch is built without NCCL"
    return ""


def counted_gpus() -> int:
    """How many GPUs there are, counted in a process of its own: a process that has touched CUDA must not fork."""
    import torch

    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        with contextlib.suppress(BaseException):
            os.write(write_end, str(torch.cuda.device_count()).encode())
        os._exit(0)
    os.close(write_end)
    with open(read_end, "rb") as answer:
        count = answer.read()
    os.waitpid(pid, 0)
    return int(count or 0)
