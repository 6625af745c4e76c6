"""Simulated worlds: collectives, turns, proofs that nobody can go on, and what each rank has as its own."""

from __future__ import annotations

import importlib
import random
import threading
import weakref

import numpy
import pytest
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch.autograd import forward_ad

from conformance.kit import stand_ins
from conformance.kit.process_groups import all_ranks
from conformance.ranks.simulated.simulation import Simulation


@pytest.fixture(scope="module", params=[2, 3, 4])
def simulation(request):
    """A world that its tests share, as the tests of a run do."""
    with Simulation(request.param) as simulation:
        yield simulation


@pytest.fixture(scope="module")
def three():
    """A world of three ranks."""
    with Simulation(3) as simulation:
        yield simulation


def results(simulation, body):
    """What a body returned on each rank; it must have passed on all."""
    found = {}

    def kept(world):
        found[world.rank] = body(world)

    outcomes = simulation.run(kept)
    assert [(outcome.outcome, outcome.message) for outcome in outcomes] == [("pass", "")] * simulation.size
    return [found[rank] for rank in range(simulation.size)]


def own(world, length=2):
    """A tensor that tells which rank it comes from."""
    return torch.arange(float(length)) + 10 * world.rank


def owns(size, length=2):
    """The same of all ranks."""
    return [[float(at + 10 * rank) for at in range(length)] for rank in range(size)]


def summed(size, length=2):
    """Their sum."""
    return [sum(column) for column in zip(*owns(size, length), strict=True)]


def of_all_reduce(world):
    x = own(world)
    dist.all_reduce(x)
    return x.tolist()


def of_functional_all_reduce(world):
    return functional.all_reduce(own(world), "sum", dist.group.WORLD).wait().tolist()


def of_coalesced_sums(world):
    tensors = [own(world), own(world, 3)]
    with dist._coalescing_manager():
        for tensor in tensors:
            dist.all_reduce(tensor)
    return [tensor.tolist() for tensor in tensors]


def of_largest(world):
    x = own(world)
    dist.all_reduce(x, dist.ReduceOp.MAX)
    return x.tolist()


def of_mean(world):
    x = own(world)
    dist.all_reduce(x, dist.ReduceOp.AVG)
    return (x * world.size).round().tolist()


def of_all_gather(world):
    parts = [torch.zeros(2) for _ in range(world.size)]
    dist.all_gather(parts, own(world))
    return [part.tolist() for part in parts]


def of_gather_into_one(world):
    whole = torch.zeros(2 * world.size)
    dist.group.WORLD._allgather_base(whole, own(world)).wait()
    return whole.view(world.size, 2).tolist()


def of_objects(world):
    found = [None] * world.size
    dist.all_gather_object(found, own(world).tolist())
    return found


def of_reduce_scatter(world):
    x = torch.zeros(2)
    dist.reduce_scatter(x, [own(world)] * world.size)
    return x.tolist()


def of_reduce_scatter_of_one(world):
    x = torch.zeros(2)
    dist.group.WORLD._reduce_scatter_base(x, own(world).repeat(world.size)).wait()
    return x.tolist()


def in_future(work):
    """What a future of a collective gives to what is chained to it."""
    return work.get_future().then(lambda future: [tensor.tolist() for tensor in future.value()]).wait()


def of_future_sum(world):
    return in_future(dist.all_reduce(own(world), async_op=True))[0]


def of_future_sum_of_a_kept_tensor(world):
    x = own(world)
    work = dist.all_reduce(x, async_op=True)
    world.sleep(0.1)
    return in_future(work)[0]


def of_future_gather(world):
    return in_future(dist.all_gather([torch.zeros(2) for _ in range(world.size)], own(world), async_op=True))


def of_future_exchange(world):
    return in_future(dist.all_to_all_single(torch.zeros(2 * world.size), own(world).repeat(world.size), async_op=True))


def of_sum_after_monitored_barrier(world):
    dist.monitored_barrier()
    return of_all_reduce(world)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (of_all_reduce, summed),
        (of_functional_all_reduce, summed),
        (of_coalesced_sums, lambda size: [summed(size), summed(size, 3)]),
        (of_largest, lambda size: owns(size)[-1]),
        (of_mean, summed),
        (of_all_gather, owns),
        (of_gather_into_one, owns),
        (of_objects, owns),
        (of_reduce_scatter, summed),
        (of_reduce_scatter_of_one, summed),
        (of_future_sum, summed),
        (of_future_sum_of_a_kept_tensor, summed),
        (of_future_gather, owns),
        (of_future_exchange, lambda size: [[number for each in owns(size) for number in each]]),
        (of_sum_after_monitored_barrier, summed),
    ],
)
def test_every_rank_has_what_all_brought(simulation, body, expected):
    assert results(simulation, body) == [expected(simulation.size)] * simulation.size


def test_a_broadcast_leaves_the_root_as_it_is_and_a_reduction_the_others(simulation):
    def body(world):
        sent, total = own(world), own(world)
        dist.broadcast(sent, 1)
        dist.reduce(total, 1)
        return sent.tolist(), total.tolist()

    size = simulation.size
    totals = [summed(size) if rank == 1 else each for rank, each in enumerate(owns(size))]
    assert results(simulation, body) == [(owns(size)[1], total) for total in totals]


def test_scatter_and_gather_go_by_their_root(simulation):
    def body(world):
        last = world.size - 1
        here = world.rank == last
        part, parts = torch.zeros(1), [torch.zeros(1) for _ in range(world.size)]
        dist.scatter(part, list(torch.arange(world.size, dtype=part.dtype).split(1)) if here else None, src=last)
        dist.gather(part * 2, parts if here else None, dst=last)
        return part.item(), [each.item() for each in parts]

    numbers = [float(rank) for rank in range(simulation.size)]
    expected = [(number, [0.0] * simulation.size) for number in numbers]
    expected[-1] = (numbers[-1], [2 * number for number in numbers])
    assert results(simulation, body) == expected


def test_scatter_and_reduce_scatter_go_by_memory_as_with_gloo(three):
    """Numbers arrive where they lie in memory, whatever the strides; a rank's own part of a sum by its elements."""

    def body(world):
        rows = torch.arange(6.0).reshape(2, 3)
        part, total = rows.new_zeros(3, 2).t(), rows.new_zeros(3, 2).t()
        dist.scatter(part, [rows] * 3 if world.rank == 0 else None, src=0)
        dist.reduce_scatter(total, [rows] * 3)
        return part.t().tolist(), total.t().tolist()

    rows = torch.arange(6.0).reshape(2, 3)
    as_memory = rows.reshape(3, 2)
    assert results(three, body) == [(as_memory.tolist(), (rows.t() + 2 * as_memory).tolist())] * 3


def test_what_scatter_reads_past_the_end_of_a_tensor_is_undefined_but_no_error(three):
    """Of an expanded tensor, Gloo reads as many elements as it has, as if each had memory of its own."""

    def body(world):
        part = torch.empty(2, 2)
        dist.scatter(part, [own(world).expand(2, 2)] * 3 if world.rank == 0 else None, src=0)
        return part[0].tolist(), part[1].isnan().all().item()

    assert results(three, body) == [([0.0, 1.0], True)] * 3


def test_what_all_make_of_an_exchange_is_made_once(simulation):
    made = []

    def total(values):
        made.append(values)
        return [sum(values)]

    found = results(simulation, lambda world: all_ranks(world).together(world.rank, total))
    assert made == [list(range(simulation.size))]
    assert all(one is found[0] for one in found)
    assert found[0] == [sum(range(simulation.size))]


def test_parts_of_other_sizes_are_exchanged(simulation):
    """Rank r sends s + 1 rows to rank s."""

    def body(world):
        rows = [rank + 1 for rank in range(world.size)]
        arrived = torch.zeros(world.size * (world.rank + 1), 2)
        packed = torch.full((sum(rows), 2), float(world.rank))
        dist.all_to_all_single(arrived, packed, [world.rank + 1] * world.size, rows)
        parts = [torch.zeros(world.rank + 1) for _ in range(world.size)]
        dist.all_to_all(parts, [torch.full((row,), float(world.rank)) for row in rows])
        return arrived[:, 1].tolist(), torch.cat(parts).tolist()

    size = simulation.size
    expected = [[float(other) for other in range(size) for _ in range(rank + 1)] for rank in range(size)]
    assert results(simulation, body) == [(each, each) for each in expected]


def test_rows_of_other_lengths_are_gathered(simulation):
    def body(world):
        parts = [torch.zeros(rank + 1) for rank in range(world.size)]
        dist.all_gather(parts, torch.full((world.rank + 1,), float(world.rank)))
        return [part.tolist() for part in parts]

    size = simulation.size
    assert results(simulation, body) == [[[float(rank)] * (rank + 1) for rank in range(size)]] * size


def test_messages_go_round_a_ring(simulation):
    def body(world):
        before, after = (world.rank - 1) % world.size, (world.rank + 1) % world.size
        received, again = torch.zeros(2), torch.zeros(2)
        operations = [dist.P2POp(dist.isend, own(world), after), dist.P2POp(dist.irecv, received, before)]
        for work in dist.batch_isend_irecv(operations):
            work.wait()
        sending = dist.isend(own(world), after, tag=5)
        assert dist.recv(again, tag=5) == before
        sending.wait()
        return received.tolist(), again.tolist()

    everyone = owns(simulation.size)
    assert results(simulation, body) == [(everyone[rank - 1],) * 2 for rank in range(simulation.size)]


@pytest.mark.parametrize("seed", [None, 1])
def test_a_message_that_has_arrived_keeps_no_tensor_alive(seed):
    def body(world):
        before, after = (world.rank - 1) % 2, (world.rank + 1) % 2
        sent, received = own(world), torch.zeros(2)
        operations = [dist.P2POp(dist.isend, sent, after), dist.P2POp(dist.irecv, received, before)]
        for work in dist.batch_isend_irecv(operations):
            work.wait()
        left = weakref.ref(sent), weakref.ref(received)
        del sent, received, operations, work
        return [each() for each in left]

    with Simulation(2, seed) as simulation:
        assert results(simulation, body) == [[None, None]] * 2


def test_messages_of_one_sender_arrive_in_order_whichever_is_waited_for_first(three):
    def body(world):
        if world.rank == 0:
            for number in (1.0, 2.0):
                dist.send(torch.tensor([number]), 1)
        if world.rank == 1:
            tensors = [torch.zeros(1) for _ in range(2)]
            first, second = (dist.irecv(tensor, 0) for tensor in tensors)
            second.wait()
            first.wait()
            return [tensor.item() for tensor in tensors]
        return None

    assert results(three, body)[1] == [1.0, 2.0]


@pytest.mark.parametrize("sends_first", [True, False])
def test_several_messages_to_a_rank_may_be_under_way_at_once(three, sends_first):
    def body(world):
        others = [rank for rank in range(world.size) if rank != world.rank]
        received = {other: torch.zeros(2) for other in others}
        sends = [(dist.isend, own(world), other) for other in others]
        receives = [(dist.irecv, received[other], other) for other in reversed(others)]
        works = [call(*given) for call, *given in (sends + receives if sends_first else receives + sends)]
        for work in works:
            work.wait()
        return {other: tensor.tolist() for other, tensor in received.items()}

    everyone = dict(enumerate(owns(3)))
    assert results(three, body) == [{other: everyone[other] for other in {0, 1, 2} - {rank}} for rank in range(3)]


def test_groups_know_their_ranks_and_work_side_by_side(three):
    def body(world):
        pair, alone = dist.new_group([0, 2]), dist.new_group([1])
        mine = alone if world.rank == 1 else pair
        x = own(world)
        dist.all_reduce(x, group=mine)
        return dist.get_rank(mine), dist.get_world_size(mine), dist.get_rank(), dist.get_world_size(), x.tolist()

    assert results(three, body) == [
        (0, 2, 0, 3, [20.0, 22.0]),
        (0, 1, 1, 3, [10.0, 11.0]),
        (1, 2, 2, 3, [20.0, 22.0]),
    ]


@pytest.mark.parametrize("level", ["OFF", "DETAIL"])
def test_a_rank_that_asks_for_gloo_gets_a_simulated_backend_under_that_name(level, monkeypatch):
    def body(world):
        pair = dist.new_group([0, 1], backend="gloo")
        x = own(world)
        dist.all_reduce(x, group=pair)
        return dist.get_backend(), dist.get_backend(pair), dist.get_backend_config(pair), x.tolist()

    monkeypatch.setattr(dist.distributed_c10d, "get_debug_level", lambda: getattr(dist.DebugLevel, level))
    with Simulation(2) as simulation:
        assert results(simulation, body) == [("gloo", "gloo", "cpu:gloo,cuda:gloo", [10.0, 12.0])] * 2


def test_a_rank_that_asks_for_a_backend_that_is_not_there_is_refused(three):
    def body(world):
        dist.new_group(backend="mpi" if dist.is_nccl_available() else "cpu:gloo,cuda:nccl")

    assert {found.outcome for found in three.run(body)} == {"error"}


def test_gradients_are_added_up_in_backward_on_every_rank(simulation):
    class Copy(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, grad):
            total = grad.clone()
            dist.all_reduce(total)
            return total

    def body(world):
        x = own(world).requires_grad_()
        (Copy.apply(x) * (world.rank + 1)).sum().backward()
        return x.grad.tolist()

    size = simulation.size
    assert results(simulation, body) == [[size * (size + 1) / 2] * 2] * size


def test_each_rank_has_its_own_random_numbers_dtype_modes_and_stand_ins(three):
    class Owner:
        value = "nobody's"

    def body(world):
        torch.manual_seed(world.rank)
        random.seed(world.rank)
        before = torch.get_default_dtype()
        torch.set_default_dtype(torch.float64 if world.rank else torch.float16)
        with (
            stand_ins.replaced(Owner, "value", world.rank),
            torch.set_grad_enabled(world.rank == 1),
            torch.autocast("cpu", enabled=world.rank == 2),
        ):
            dist.barrier()
            seen = Owner.value, torch.is_grad_enabled(), torch.is_autocast_enabled("cpu")
            dist.barrier()
        drawn = torch.rand(2).tolist(), random.random()
        torch.set_default_dtype(before)
        torch.manual_seed(world.rank)
        random.seed(world.rank)
        torch.set_default_dtype(torch.float64 if world.rank else torch.float16)
        assert drawn == (torch.rand(2).tolist(), random.random())
        torch.set_default_dtype(before)
        return seen, Owner.value

    assert results(three, body) == [((rank, rank == 1, rank == 2), "nobody's") for rank in range(3)]


#: Of each generator: seed it, draw a number, draw a normal one, of which two are made at a time, and read its state.
GENERATORS = {
    "numpy": (numpy.random.seed, numpy.random.rand, numpy.random.randn, lambda: numpy.random.get_state()[1].tolist()),
    "python": (random.seed, random.random, lambda: random.gauss(0, 1), lambda: random.getstate()[1]),
}


@pytest.mark.parametrize("generator", GENERATORS)
def test_each_rank_has_its_own_numbers_with_the_normal_one_that_is_kept_for_later(three, generator):
    seed, draw, draw_normal, state = GENERATORS[generator]

    def draws(world):
        seed(world.rank)
        yield draw()
        for _ in range(4):
            yield draw_normal()
        yield draw()

    def body(world):
        found = []
        for drawn in draws(world):
            found.append(drawn)
            dist.barrier()
        return found

    outside = state()
    found = results(three, body)
    assert state() == outside
    for rank, each in enumerate(found):
        assert each == list(draws(three.worlds[rank]))


def test_all_ranks_may_draw_the_same_numbers_of_numpy(three):
    def body(world):
        numpy.random.seed(0)
        found = []
        for _ in range(5):
            found.append(numpy.random.randn())
            dist.barrier()
        return found

    numpy.random.seed(0)
    assert results(three, body) == [[numpy.random.randn() for _ in range(5)]] * 3


def test_ranks_are_in_forward_mode_at_the_same_time(three):
    def body(world):
        with forward_ad.dual_level():
            dual = forward_ad.make_dual(own(world), torch.ones(2) * world.rank)
            dist.barrier()
            tangent = forward_ad.unpack_dual(dual * 2).tangent
        return tangent.tolist()

    assert results(three, body) == [[2.0 * rank] * 2 for rank in range(3)]


def test_work_that_nobody_waits_for_arrives_as_late_as_may_be(three):
    def body(world):
        x = own(world)
        dist.all_reduce(x, async_op=True)
        at_once = x.tolist()
        world.exchange(None)
        later = x.tolist()
        world.sleep(1.0)
        return at_once, later, x.tolist()

    assert results(three, body) == [(each, each, summed(3)) for each in owns(3)]
    assert three.is_left_behind
    found = []
    three.run(lambda world: found.append(of_work_that_nobody_waits_for(world)), at_once=True)
    assert found == [summed(3)] * 3
    results(three, of_all_reduce)
    assert not three.is_left_behind


def of_work_that_nobody_waits_for(world):
    x = own(world)
    dist.all_reduce(x, async_op=True)
    return x.tolist()


def test_a_tensor_that_is_changed_before_its_work_is_waited_for_is_sent_as_it_is_then(three):
    def body(world):
        x = own(world)
        parts = [torch.zeros(2) for _ in range(3)]
        work = dist.all_gather(parts, x, async_op=True)
        x.zero_()
        work.wait()
        return [part.tolist() for part in parts]

    assert results(three, body) == [[[0.0, 0.0]] * 3] * 3


def test_whether_work_has_ended_can_be_asked_until_it_has(three):
    def body(world):
        x = own(world)
        world.sleep(1.0 if world.rank == 2 else 0.0)
        work = dist.all_reduce(x, async_op=True)
        asked = 1
        while not work.is_completed():
            asked += 1
        return x.tolist(), asked < 100

    assert results(three, body) == [(summed(3), True)] * 3


def rank_1_leaves(world):
    if world.rank != 1:
        dist.all_reduce(own(world))


def rank_1_goes_elsewhere(world):
    if world.rank == 1:
        dist.recv(own(world), 0)
    dist.all_reduce(own(world))


def everybody_receives(world):
    dist.recv(own(world), (world.rank + 1) % 3)


def everybody_sends_first(world):
    dist.send(own(world), (world.rank + 1) % 3)
    dist.recv(own(world), (world.rank - 1) % 3)


def rank_1_swallows_everything(world):
    if world.rank != 1:
        return
    try:
        dist.barrier()
    except BaseException:
        return


@pytest.mark.parametrize(
    ("body", "outcomes", "bystanders", "words"),
    [
        (
            rank_1_leaves,
            ["timeout", "pass", "timeout"],
            [],
            "rank 0 waits in all_reduce([2 float32]) by SUM, test_simulated.py:{line}, in rank_1_leaves; rank 1 has",
        ),
        (rank_1_goes_elsewhere, ["timeout"] * 3, [], "rank 1 waits in recv([2 float32]), from rank 0"),
        (everybody_receives, ["timeout"] * 3, [], "rank 2 waits in recv([2 float32]), from rank 0"),
        (everybody_sends_first, ["timeout"] * 3, [], "rank 2 waits in send([2 float32]), to rank 0"),
        (rank_1_swallows_everything, ["pass", "timeout", "pass"], [], "rank 1 waits in barrier("),
    ],
)
def test_that_nobody_can_go_on_is_proved(three, body, outcomes, bystanders, words):
    found = three.run(body)
    assert [each.outcome for each in found] == outcomes
    assert [each.rank for each in found if each.bystander] == bystanders
    message = next(each.message for each in found if each.outcome == "timeout")
    assert words.format(line=rank_1_leaves.__code__.co_firstlineno + 2) in message
    assert results(three, of_all_reduce) == [summed(3)] * 3  # the world is as good as before


FLAT = [
    ("reduce_scatter_tensor", lambda: dist.group.WORLD._reduce_scatter_base(torch.zeros(2), torch.zeros(6))),
    ("reduce_scatter_tensor", lambda: functional.reduce_scatter_tensor(torch.zeros(6), "sum", 0, dist.group.WORLD)),
    ("all_gather_into_tensor", lambda: dist.group.WORLD._allgather_base(torch.zeros(6), torch.zeros(2))),
    ("all_to_all_single", lambda: dist.all_to_all_single(torch.zeros(6), torch.zeros(6), async_op=True)),
]


@pytest.mark.parametrize(("name", "call"), FLAT)
def test_a_collective_of_one_tensor_has_one_name_wherever_it_is_named(three, name, call):
    waits, *_ = three.run(lambda world: world.rank == 0 and call().wait())
    assert f"rank 0 waits in {name}(" in waits.message
    assert [line.partition("(")[0] for line in waits.collectives] == [name]


def test_a_rank_that_only_waited_for_one_that_raised_is_a_bystander(three):
    def body(world):
        if world.rank == 2:
            raise ValueError("on this rank alone")
        dist.barrier()

    found = three.run(body)
    assert [(each.outcome, each.bystander) for each in found] == [
        ("timeout", True),
        ("timeout", True),
        ("error", False),
    ]
    assert "on this rank alone" in found[2].message


def of_parts_that_fit_together_alone(world):
    """Rank 0 has room for one row of each rank, and gets as many rows: two of rank 1, and none of rank 2."""
    rows = [[1, 2, 0][world.rank], 1, 1]
    dist.all_to_all_single(torch.zeros(3), torch.zeros(sum(rows)), [1, 1, 1], rows)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (
            lambda world: dist.all_reduce(torch.zeros(2 + world.rank)),
            "rank 1 called all_reduce([3 float32]) by SUM, test_sim",
        ),
        (
            lambda world: dist.all_reduce(torch.zeros(2, dtype=torch.float64 if world.rank else None)),
            "rank 1 called all_reduce([2 float64])",
        ),
        (lambda world: [dist.barrier, of_all_reduce, of_objects][world.rank](*[world][: world.rank]), "called barrier"),
        (lambda world: dist.broadcast(own(world), world.rank), "rank 0 called broadcast([2 float32]), root 0"),
        (
            lambda world: dist.all_reduce(own(world), [dist.ReduceOp.SUM, dist.ReduceOp.MAX][world.rank % 2]),
            "[2 float32]) by MAX",
        ),
        (
            lambda world: dist.send(own(world), 1) if world.rank == 0 else dist.recv(own(world, 3), 0),
            "rank 1 called rec",
        ),
        (of_parts_that_fit_together_alone, "rank 1 called all_to_all_single(3 float32, 4 float32"),
    ],
)
def test_what_does_not_fit_together_is_told_with_what_each_rank_called(three, body, words):
    found = three.run(body)
    broken = [each for each in found if each.outcome == "error"]
    assert broken
    assert all("does not fit together" in each.message and words in each.message for each in broken)


def test_what_a_backend_refuses_is_an_exception_of_the_rank_that_calls_it(three):
    def refused(action):
        with pytest.raises(ValueError):
            action()

    def body(world):
        wide = torch.zeros(2, 3).t()
        refused(lambda: dist.all_to_all_single(torch.zeros(3, 2), wide))
        refused(lambda: dist.all_to_all_single(torch.zeros(4), torch.zeros(4)))
        refused(lambda: dist.all_gather([torch.zeros(2)] * 2, torch.zeros(2)))
        refused(lambda: dist.all_gather([torch.zeros(3)] * 3, torch.zeros(2)))
        refused(lambda: dist.group.WORLD._allgather_base(torch.zeros(5), torch.zeros(2)))
        refused(lambda: dist.all_reduce(torch.zeros(1).expand(4)))

    results(three, body)


def test_calls_that_are_started_as_one_are_refused_as_gloo_refuses_them(three):
    def body(world):
        wide = torch.zeros(3)
        with dist.distributed_c10d._coalescing_manager(device=wide.device):
            dist.all_gather_into_tensor(wide, torch.ones(1))

    assert {found.outcome for found in three.run(body)} == {"error"}
    assert all("Backend gloo does not implement startCoalescing" in found.message for found in three.run(body))


def test_one_rank_alone_reads_nothing_of_a_tensor_whose_elements_share_memory():
    """Gloo returns at once in a group of one rank, where nothing has to move."""

    def body(world):
        for collective in (dist.all_reduce, lambda x: dist.reduce(x, 0), lambda x: dist.broadcast(x, 0)):
            row = torch.tensor([1.0, 2.0])
            collective(row.expand(3, 2))
            assert row.tolist() == [1.0, 2.0]
        return True

    with Simulation(1) as alone:
        assert results(alone, body) == [True]


def test_autograd_sees_of_what_arrives_what_it_sees_with_gloo(three):
    """Gloo and NCCL copy what is gathered out of a buffer of their own."""

    def body(world):
        x, parts = own(world), [torch.zeros(2) for _ in range(3)]
        part = parts[0] = parts[0].requires_grad_() * 2
        dist.all_reduce(x)
        dist.all_gather(parts, x)
        return x._version, [each._version for each in parts], part.grad_fn.name().rpartition("::")[2]

    assert results(three, body) == [(0, [1, 1, 1], "CopyBackwards")] * 3


#: What code keeps for later calls, as model-parallel libraries keep their groups: one for the process.
KEPT = {}


class Layer:
    """Keeps its group, as many a layer does."""

    group = None


@pytest.mark.parametrize(
    "ends", ["fails", "fails with a class", "fails with an object", "uses the group of another rank", "passes"]
)
def test_a_failure_of_code_that_keeps_its_group_in_a_variable_is_not_judged(three, ends):
    seen = []  # by no module's name

    def body(world):
        if ends == "fails with a class":
            Layer.group = dist.group.WORLD
        elif ends == "fails with an object":
            KEPT["layer"] = Layer()
            KEPT["layer"].group = dist.group.WORLD
        elif ends == "uses the group of another rank":
            seen.append(dist.group.WORLD)
        else:
            KEPT.setdefault("groups", []).append(dist.group.WORLD)
        if seen:
            dist.all_reduce(torch.ones(2), group=seen[0])
        assert ends == "passes"

    try:
        found = three.run(body)
    finally:
        KEPT.clear()
        Layer.group = None
    if ends == "passes":
        assert {one.outcome for one in found} == {"pass"}
        return
    kept = f"{__name__}.KEPT"
    names = {"fails": kept, "fails with an object": kept, "fails with a class": f"{__name__}.Layer"}
    place = names.get(ends, "a variable of the process")
    said = f"not judged on simulated ranks: {place} holds the process group of one rank"
    assert {(one.outcome, one.message.partition(",")[0]) for one in found} == {("skip", said)}
    assert three.run(lambda world: 1 / 0)[0].outcome == "error"


def keep(group):
    """Keep a group that came from new_group in a variable, as libraries do; they insist on being the first."""
    global _KEPT_GROUP
    assert _KEPT_GROUP is None
    _KEPT_GROUP = group


_KEPT_GROUP = None


def test_each_rank_has_its_own_of_a_variable_that_a_function_sets(three):
    def body(world):
        keep(dist.group.WORLD)
        dist.barrier()
        x = torch.full((2,), float(world.rank))
        dist.all_reduce(x, group=_KEPT_GROUP)
        return _KEPT_GROUP is dist.group.WORLD, x.tolist()

    assert results(three, body) == [(True, [3.0, 3.0])] * 3
    assert results(three, lambda world: _KEPT_GROUP is dist.group.WORLD) == [True] * 3
    assert _KEPT_GROUP is None


#: A module that remembers what came first.
KEEPS = "import torch\nlast = None\ndef keep(value):\n    global last, other\n    last = last or value\n"


def imported(source, name, folder, monkeypatch):
    (folder / f"{name}.py").write_text(source)
    monkeypatch.syspath_prepend(folder)
    return importlib.import_module(name)


def test_so_has_each_rank_of_a_module_that_is_imported_after_they_began(three, tmp_path, monkeypatch):
    later = imported(KEEPS + "from torch.distributed import new_group\n", "keeps_groups", tmp_path, monkeypatch)

    def body(world):
        later.keep(f"rank {world.rank}")
        dist.barrier()
        return later.last

    assert results(three, body) == ["rank 0", "rank 1", "rank 2"]
    assert later.last is None


def test_ranks_share_what_a_module_keeps_that_makes_no_group(three, tmp_path, monkeypatch):
    """It may be what the module has changed for the whole process, such as a function of PyTorch that it replaced."""
    later = imported(KEEPS, "keeps_others", tmp_path, monkeypatch)
    three.run(lambda world: later.keep(f"rank {world.rank}"))
    assert later.last == "rank 0"


def test_one_rank_shares_its_group_with_nobody():
    def body(world):
        KEPT["group"] = dist.group.WORLD
        raise ValueError("wrong")

    try:
        with Simulation(1) as alone:
            assert [one.outcome for one in alone.run(body)] == ["error"]
    finally:
        KEPT.clear()


def order_of(simulation):
    order = []

    def body(world):
        for _ in range(4):
            order.append(world.rank)
            dist.barrier()

    simulation.run(body)
    return order


def test_the_order_is_fixed_or_drawn_from_a_seed_and_drawn_again():
    with Simulation(3) as fixed, Simulation(3, seed=7) as drawn, Simulation(3, seed=7) as again:
        orders = [order_of(simulation) for simulation in (fixed, drawn, again)]
        assert order_of(fixed) == orders[0]
        assert order_of(drawn) == orders[1] == orders[2]
    assert orders[0] != orders[1]
    with Simulation(3, seed=8) as other:
        assert order_of(other) != orders[1]


def test_a_gradient_that_depends_on_the_order_shows_under_some_seed():
    """Rank 0 takes what arrives first: in the fixed order that is always the same."""

    def body(world):
        if world.rank:
            dist.send(own(world), 0)
            return None
        x = torch.zeros(2)
        first = dist.recv(x)
        dist.recv(x)
        return first

    def firsts(seed):
        with Simulation(3, seed) as simulation:
            return results(simulation, body)[0]

    assert firsts(None) == firsts(None)
    assert {firsts(seed) for seed in range(8)} == {1, 2}


def test_pytorch_is_as_it_was_once_the_world_is_closed():
    reduce_, world = dist.ProcessGroup.allreduce, dist.distributed_c10d._world
    with Simulation(2) as simulation:
        results(simulation, of_all_reduce)
        assert not dist.is_initialized()  # but on the ranks
    assert dist.ProcessGroup.allreduce is reduce_
    assert dist.distributed_c10d._world is world
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    x = torch.ones(2)
    dist.all_reduce(x)
    dist.destroy_process_group()
    assert x.tolist() == [1.0, 1.0]


def test_a_thread_that_a_rank_starts_is_of_its_world(three):
    def body(world):
        found = []
        thread = threading.Thread(target=lambda: found.append((of_all_reduce(world), of_functional_all_reduce(world))))
        thread.start()
        thread.join()
        return found

    assert results(three, body) == [[(summed(3), summed(3))]] * 3


def test_a_group_that_such_a_thread_makes_is_simulated():
    def body(world):
        x = own(world)
        thread = threading.Thread(target=lambda: dist.all_reduce(x, group=dist.new_group()))
        thread.start()
        thread.join()
        return x.tolist()

    with Simulation(2) as simulation:
        assert results(simulation, body) == [[10.0, 12.0]] * 2


def test_a_group_that_one_rank_destroys_is_there_for_the_others():
    def body(world):
        if world.rank == 0:
            dist.destroy_process_group()
            return None
        group = dist.new_group([1, 2], use_local_synchronization=True)
        return functional.all_reduce(own(world), "sum", group).wait().tolist()

    with Simulation(3) as simulation:
        assert results(simulation, body) == [None, [30.0, 32.0], [30.0, 32.0]]
