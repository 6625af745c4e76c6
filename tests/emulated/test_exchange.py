"""The gathers of the reference on a backend that takes what NCCL takes."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist

from spec_impl import exchange
from spec_impl.ksuit import AllGatherGradAutograd
from tests.emulated.processes import on_ranks

DTYPES = [
    torch.bool,
    torch.uint8,
    torch.int16,
    torch.int64,
    torch.float16,
    torch.bfloat16,
    torch.float64,
    torch.complex64,
]
SMALL, LARGE = 3, 5000  # LARGE does not fit into the message that describes a tensor


def of_rank(rank, size, dtype):
    return (torch.arange(size) % 100 * (rank + 1)).to(dtype).to("emulated")


@on_ranks(1, 2, 3)
def test_a_gather_carries_every_dtype(rank, size):
    for dtype in DTYPES:
        for length in (0, SMALL, LARGE):
            actual = AllGatherGradAutograd.apply(of_rank(rank, length, dtype))
            expected = [of_rank(s, length, dtype) for s in range(size)]
            assert all(torch.equal(one, other) for one, other in zip(actual, expected, strict=True)), (dtype, length)


@on_ranks(1, 2, 3)
def test_the_gradient_of_a_gather_is_the_sum_over_ranks(rank, size):
    for dtype in (torch.float32, torch.bfloat16, torch.complex64, torch.complex128):
        for length in (SMALL, LARGE):
            x = of_rank(rank, length, dtype).requires_grad_()
            loss = sum(
                (entry * (s + 1) * (rank + 1)).real.sum() for s, entry in enumerate(AllGatherGradAutograd.apply(x))
            )
            loss.backward()
            expected = (rank + 1) * size * (size + 1) // 2
            assert torch.equal(x.grad, torch.full_like(x, expected)), dtype


@on_ranks(2, 3)
def test_ranks_that_disagree_are_told(rank, size):
    with pytest.raises(ValueError, match=r"rank 0 has torch.float32 \(1,\), rank 1 has torch.float32 \(2,\)"):
        AllGatherGradAutograd.apply(torch.ones(rank + 1, device="emulated"))


@on_ranks(2, 3)
def test_gathering_over_a_subgroup(rank, size):
    group = dist.new_group([0, size - 1])
    if rank in (0, size - 1):
        x = of_rank(rank, LARGE, torch.complex64)
        starts = exchange.agree(x, group)
        places = [torch.empty_like(x) for _ in range(2)]
        exchange.gather_into(places, x, starts, group)
        assert torch.equal(places[1], of_rank(size - 1, LARGE, torch.complex64))
