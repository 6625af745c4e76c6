"""The process group of the emulated device: right on 1, 2 and 3 ranks, and late."""

from __future__ import annotations

import torch
import torch.distributed as dist

from tests.emulated.processes import on_device, on_ranks


def of_rank(rank, dtype=torch.float32):
    """What a rank has to give: (rank + 1) and ten times that."""
    return torch.tensor([rank + 1, 10 * (rank + 1)], dtype=dtype, device="emulated")


def total(size):
    return size * (size + 1) // 2


@on_ranks(1, 2, 3)
def test_all_reduce_gives_every_rank_the_sum_mean_or_largest(rank, size):
    x = of_rank(rank)
    dist.all_reduce(x)
    assert x.tolist() == [total(size), 10 * total(size)]
    x = of_rank(rank)
    dist.all_reduce(x, op=dist.ReduceOp.AVG)
    assert x.tolist() == [total(size) / size, 10 * total(size) / size]
    x = of_rank(rank, torch.int64)
    dist.all_reduce(x, op=dist.ReduceOp.MAX)
    assert x.tolist() == [size, 10 * size]
    x = torch.tensor([rank == 0, False], device="emulated")
    dist.all_reduce(x)
    assert x.tolist() == [True, False]
    x = of_rank(rank) * 1j
    dist.all_reduce(x)
    assert x.tolist() == [1j * total(size), 10j * total(size)]


@on_ranks(1, 2, 3)
def test_a_transposed_tensor_keeps_its_elements(rank, size):
    x = torch.arange(6.0, device="emulated").reshape(2, 3).t()
    dist.all_reduce(x)
    assert torch.equal(x.cpu(), torch.arange(6.0).reshape(2, 3).t() * size)


@on_ranks(1, 2, 3)
def test_broadcast_and_reduce_go_from_one_rank_and_to_one(rank, size):
    x = of_rank(rank)
    dist.broadcast(x, src=size - 1)
    assert x.tolist() == [size, 10 * size]
    x = of_rank(rank)
    dist.reduce(x, dst=0)
    assert x.tolist() == ([total(size), 10 * total(size)] if rank == 0 else [rank + 1, 10 * (rank + 1)])


@on_ranks(1, 2, 3)
def test_gathers_give_every_tensor_or_object_in_the_order_of_ranks(rank, size):
    expected = [[s + 1, 10 * (s + 1)] for s in range(size)]
    places = [torch.empty(2, device="emulated") for _ in range(size)]
    dist.all_gather(places, of_rank(rank))
    assert [place.tolist() for place in places] == expected
    whole = torch.empty(size, 2, device="emulated")
    dist.all_gather_single(whole, of_rank(rank))
    assert whole.tolist() == expected
    places = [torch.empty(2, device="emulated") for _ in range(size)] if rank == 0 else None
    dist.gather(of_rank(rank), places, dst=0)
    assert rank or [place.tolist() for place in places] == expected
    objects = [None] * size
    dist.all_gather_object(objects, {"rank": rank})
    assert objects == [{"rank": s} for s in range(size)]


@on_ranks(1, 2, 3)
def test_scatters_give_each_rank_its_part(rank, size):
    mine = torch.empty(2, device="emulated")
    dist.scatter(mine, [of_rank(s) for s in range(size)] if rank == 0 else None, src=0)
    assert mine.tolist() == [rank + 1, 10 * (rank + 1)]
    dist.reduce_scatter(mine, [of_rank(rank + s) for s in range(size)])
    expected = sum(s + rank + 1 for s in range(size))
    assert mine.tolist() == [expected, 10 * expected]
    dist.reduce_scatter_single(mine, torch.cat([of_rank(rank + s) for s in range(size)]))
    assert mine.tolist() == [expected, 10 * expected]


@on_ranks(1, 2, 3)
def test_uneven_gathers_and_scatters_work_as_on_nccl(rank, size):
    places = [torch.empty(s + 1, 2, device="emulated") for s in range(size)]
    dist.all_gather(places, torch.full((rank + 1, 2), rank, device="emulated", dtype=torch.float32))
    assert [place.tolist() for place in places] == [[[s, s]] * (s + 1) for s in range(size)]
    mine = torch.empty(rank + 1, device="emulated")
    dist.reduce_scatter(mine, [torch.full((s + 1,), float(s + 1), device="emulated") for s in range(size)])
    assert mine.tolist() == [size * (rank + 1)] * (rank + 1)


@on_ranks(1, 2, 3)
def test_all_to_all_gives_each_rank_what_is_its(rank, size):
    given = torch.arange(size, device="emulated") + 10 * rank
    arrived = torch.empty_like(given)
    dist.all_to_all_single(arrived, given)
    assert arrived.tolist() == [10 * s + rank for s in range(size)]
    # Rank r sends s + 1 elements to rank s.
    parts = [torch.full((s + 1,), rank, device="emulated") for s in range(size)]
    places = [torch.empty(rank + 1, dtype=torch.int64, device="emulated") for _ in range(size)]
    dist.all_to_all(places, parts)
    assert [place.tolist() for place in places] == [[s] * (rank + 1) for s in range(size)]


@on_ranks(2, 3)
def test_messages_arrive_from_rank_to_rank(rank, size):
    x = of_rank(rank)
    if rank == 0:
        dist.send(x, dst=1, tag=3)
    elif rank == 1:
        dist.recv(x, src=0, tag=4)  # tags mean nothing
        assert x.tolist() == [1, 10]
    to, source = (rank + 1) % size, (rank - 1) % size
    arrived = torch.empty(2, device="emulated")
    works = dist.batch_isend_irecv([dist.P2POp(dist.isend, of_rank(rank), to), dist.P2POp(dist.irecv, arrived, source)])
    for work in works:
        work.wait()
    assert arrived.tolist() == [source + 1, 10 * (source + 1)]


@on_ranks(3)
def test_a_subgroup_leaves_other_ranks_alone(rank, size):
    group = dist.new_group([0, 2])
    x = of_rank(rank)
    if rank != 1:
        dist.all_reduce(x, group=group)
    assert x.tolist() == ([2, 20] if rank == 1 else [4, 40])


@on_ranks(1, 2)
def test_results_are_late(rank, size):
    x = of_rank(rank)
    work = dist.all_reduce(x, async_op=True)
    assert x.tolist() == [rank + 1, 10 * (rank + 1)]  # this stream has not waited
    work.wait()
    assert x.tolist() == [total(size), 10 * total(size)]
    host = x.to("cpu", non_blocking=True)
    assert host.isnan().all()
    torch.accelerator.synchronize()
    assert host.tolist() == [total(size), 10 * total(size)]


@on_ranks(1, 2)
def test_collectives_of_one_group_come_one_after_the_other(rank, size):
    x = torch.ones(2, device="emulated")
    works = [dist.all_reduce(x, async_op=True) for _ in range(3)]
    works[-1].wait()
    assert x.tolist() == [size**3] * 2


@on_ranks(2)
def test_another_stream_that_waits_for_the_work_sees_the_result(rank, size):
    x = of_rank(rank)
    work = dist.all_reduce(x, async_op=True)
    future = work.get_future()
    with torch.Stream("emulated"):
        assert x.tolist() != [total(size), 10 * total(size)]
        work.wait()
        assert x.tolist() == [total(size), 10 * total(size)]
    assert [value.tolist() for value in future.wait()] == [[total(size), 10 * total(size)]]


@on_ranks(2)
def test_asking_a_work_makes_it_go_on(rank, size):
    x = of_rank(rank)
    work = dist.all_reduce(x, async_op=True)
    assert not work.is_completed()
    assert work.is_completed()


@on_ranks(2)
def test_collectives_are_seen_by_a_dispatch_mode(rank, size):
    from torch.utils._python_dispatch import TorchDispatchMode

    class Log(TorchDispatchMode):
        names = []

        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            self.names.append(str(function))
            return function(*args, **kwargs or {})

    x = of_rank(rank)
    with Log() as log:
        dist.all_reduce(x)
    assert log.names == ["c10d.allreduce_.default"]


@on_device
def test_it_is_the_backend_of_the_device():
    dist.init_process_group(store=dist.HashStore(), rank=0, world_size=1)
    assert dist.get_backend_config() == "emulated:emulated_ccl"
    dist.destroy_process_group()


@on_device
def test_one_group_can_have_a_backend_for_each_device():
    dist.init_process_group("cpu:gloo,emulated:emulated_ccl", store=dist.HashStore(), rank=0, world_size=1)
    for device in ("cpu", "emulated"):
        x = torch.ones(2, device=device)
        dist.all_reduce(x)
        assert x.tolist() == [1, 1]
    dist.destroy_process_group()
