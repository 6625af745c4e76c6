"""What the process group of the emulated device refuses, as NCCL does."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist

from tests.emulated.processes import on_ranks


def complex_tensor():
    return torch.ones(2, dtype=torch.complex64, device="emulated")


def on_both_devices(size):
    return [torch.ones(2, device=f"emulated:{s % 2}") for s in range(size)]


REFUSED = {
    "tensors of the CPU": (
        RuntimeError,
        "No backend type associated with device type cpu",
        lambda n: dist.all_reduce(torch.ones(2)),
    ),
    "a place on the CPU": (
        RuntimeError,
        "on the emulated device, not on cpu",
        lambda n: dist.all_gather([torch.ones(2)] * n, torch.ones(2, device="emulated")),
    ),
    "two devices": (
        RuntimeError,
        "must be on the same device",
        lambda n: dist.all_gather(on_both_devices(n), torch.ones(2, device="emulated")),
    ),
    "int16": (
        TypeError,
        "data type is not supported.*Short",
        lambda n: dist.all_reduce(torch.ones(2, device="emulated").short()),
    ),
    "complex reduce_scatter": (
        TypeError,
        "data type is not supported.*ComplexFloat",
        lambda n: dist.reduce_scatter(complex_tensor(), [complex_tensor()] * n),
    ),
    "the largest complex number": (
        ValueError,
        "all_reduce does not support",
        lambda n: dist.all_reduce(complex_tensor(), op=dist.ReduceOp.MAX),
    ),
    "bitwise": (
        ValueError,
        "Cannot use this ReduceOp",
        lambda n: dist.all_reduce(torch.ones(2, device="emulated").int(), op=dist.ReduceOp.BAND),
    ),
    "average of bools": (
        TypeError,
        "bool",
        lambda n: dist.all_reduce(torch.ones(2, device="emulated").bool(), op=dist.ReduceOp.AVG),
    ),
    "gaps": (RuntimeError, "must be contiguous", lambda n: dist.all_reduce(torch.ones(4, device="emulated")[::2])),
    "two dtypes": (
        Exception,
        "dtype|type",
        lambda n: dist.all_gather([torch.ones(2, device="emulated").double()] * n, torch.ones(2, device="emulated")),
    ),
    "an uneven place of a wrong size": (
        Exception,
        "as large as|size",
        lambda n: dist.all_gather(
            [torch.empty(s + 3, device="emulated") for s in range(n)], torch.ones(2, device="emulated")
        ),
    ),
    "a wrong size": (
        Exception,
        "size",
        lambda n: dist.all_gather_single(torch.empty(2 * n + 1, device="emulated"), torch.ones(2, device="emulated")),
    ),
}


@on_ranks(1, 2)
def test_what_nccl_refuses_is_refused_and_the_next_collective_works(rank, size):
    for name, (kind, message, collective) in REFUSED.items():
        if name == "two devices" and size == 1:
            continue  # takes two tensors
        with pytest.raises(kind, match=message):
            collective(size)
    x = torch.ones(2, device="emulated")
    dist.all_reduce(x)  # nobody is out of step after a refusal
    assert x.tolist() == [size, size]
