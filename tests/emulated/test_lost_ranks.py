"""What the process group of the emulated device does with a rank whose peer is gone, as NCCL does it."""

from __future__ import annotations

import datetime
import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
import torch.distributed as dist

from conformance.emulated import build, load
from tests.emulated.processes import ending, on_ranks


def survivor_of_a_rank_that_dies(library, folder, rank, busy):
    load(library)
    timeout = datetime.timedelta(seconds=60)
    dist.init_process_group("emulated_ccl", store=dist.FileStore(folder, 2), rank=rank, world_size=2, timeout=timeout)
    x = torch.ones(2, device="emulated")
    dist.all_reduce(x)
    x.tolist()
    if rank == 1:
        os._exit(0)
    dist.all_reduce(x)
    if busy:
        time.sleep(60)  # the host need not look at the device to be ended
        os._exit(0)
    try:
        torch.accelerator.synchronize()
    except RuntimeError:
        try:
            torch.ones(2, device="emulated") + 1
        except RuntimeError:
            os._exit(5)  # once failed, the device stays failed
    os._exit(0)


def pair(folder, busy, **environment):
    library = build()
    with ThreadPoolExecutor(2) as pool:
        ends = [
            pool.submit(ending, survivor_of_a_rank_that_dies, library, str(folder / "store"), rank, busy, **environment)
            for rank in range(2)
        ]
    return ends[0].result()


def test_a_rank_whose_peer_died_is_aborted(tmp_path):
    status, errors = pair(tmp_path, busy=True)
    assert status == -signal.SIGABRT
    assert "[emulated_ccl] rank 0: ALLREDUCE failed, which ends the process" in errors


def test_without_error_handling_the_error_is_that_of_the_device(tmp_path):
    assert pair(tmp_path, busy=False, TORCH_NCCL_ASYNC_ERROR_HANDLING="0")[0] == 5


@on_ranks(2)
def test_what_was_aborted_fails_and_leaves_the_process(rank, size):
    x = torch.ones(2, device="emulated")
    dist.all_reduce(x)
    assert x.tolist() == [2, 2]
    if rank == 0:
        dist.all_reduce(x, async_op=True)  # its peer does not come
        dist.distributed_c10d._abort_process_group()
        with pytest.raises(RuntimeError):
            torch.accelerator.synchronize()
        os._exit(0)
    time.sleep(2)
    os._exit(0)
