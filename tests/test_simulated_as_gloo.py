"""Simulated collectives do as Gloo does: each case runs on ranks with Gloo, and on simulated ones beside it."""

from __future__ import annotations

import itertools

import pytest
import torch
import torch.distributed as dist

from conformance.ranks.simulated.simulation import Simulation

FLAGS = (False, True)
IN_ROWS, TRANSPOSED, CUT_OUT, WITH_GAPS = "rows", "transposed", "cut out of wider rows", "with gaps"


def all_gather(x, to):
    return dist.all_gather([to, to.detach().clone()], x, async_op=True)


def all_gather_of_one(x, to):
    return dist.all_gather_into_tensor(to, x[:1], async_op=True)


def reduce_scatter(x, to):
    return dist.reduce_scatter(to, [x, x * 3], async_op=True)


def reduce_scatter_of_one(x, to):
    return dist.reduce_scatter_tensor(to, torch.cat([x, x * 3]), async_op=True)


def seen_by_autograd(collective, needs_gradient, is_leaf, records):
    """Whether a result is part of the graph and by what, how often it was written to, and the gradient of its sum."""
    x = torch.ones(2, 3, requires_grad=needs_gradient)
    with torch.set_grad_enabled(records):
        to = torch.empty(2, 3, requires_grad=is_leaf)
        work = collective(x, to)
        with torch.enable_grad():
            work.wait()
    if to.grad_fn is None:
        return None, to.requires_grad, to._version
    return to.grad_fn.name(), to._version, torch.autograd.grad(to.sum(), x)[0].tolist()


def graph_cases():
    """PyTorch marks the result of all_gather_of_one while a thread fills it: with gradients, either may come first."""
    for collective in (all_gather, reduce_scatter, reduce_scatter_of_one):
        yield from ((collective, *flags) for flags in itertools.product(FLAGS, repeat=3))
    yield from ((all_gather_of_one, *flags, False) for flags in itertools.product(FLAGS, repeat=2))


def laid(layout, count, start=0):
    """Numbers from a start on, in two columns."""
    if layout == CUT_OUT:
        return (torch.arange(4.0 * count) + start).view(count, 4)[:, 1:3]
    if layout == WITH_GAPS:
        return (torch.arange(4.0 * count) + start).view(2, 2 * count)[:, ::2].t()
    numbers = torch.arange(2.0 * count) + start
    return numbers.view(count, 2) if layout == IN_ROWS else numbers.view(2, count).t()


def sums(own, whole, to, all_to):
    return dist.reduce_scatter(to, [own, own * 2])


def sums_of_one(own, whole, to, all_to):
    return dist.reduce_scatter_tensor(to, whole)


def gathered(own, whole, to, all_to):
    return dist.all_gather([to, to * 0], own)


def gathered_into_one(own, whole, to, all_to):
    return dist.all_gather_into_tensor(all_to, own)


def gathered_at_first(own, whole, to, all_to):
    return dist.gather(own, [to, to * 0] if dist.get_rank() == 0 else None, dst=0)


def scattered(own, whole, to, all_to):
    return dist.scatter(to, [own, own * 2] if dist.get_rank() == 0 else None, src=0)


def summed(own, whole, to, all_to):
    return dist.all_reduce(own)


def sent_to_all(own, whole, to, all_to):
    return dist.broadcast(own, 0)


def summed_at_first(own, whole, to, all_to):
    return dist.reduce(own, 0)


LAYOUTS = (
    sums,
    sums_of_one,
    gathered,
    gathered_into_one,
    gathered_at_first,
    scattered,
    summed,
    sent_to_all,
    summed_at_first,
)


def what_arrives(collective, layouts, result):
    """Every tensor after a collective. Ranks may lay out theirs differently."""
    rank = dist.get_rank()
    own, whole = (laid(layouts[rank], count, 100 * rank) for count in (3, 6))
    to, all_to = laid(result, 3), laid(result, 6)
    collective(own, whole, to, all_to)
    is_buffer = collective is summed_at_first and rank  # any numbers may be left there
    return [] if is_buffer else [each.tolist() for each in (own, whole, to, all_to)]


def layout_cases():
    kinds = (IN_ROWS, TRANSPOSED)
    for collective, *layouts, result in itertools.product(LAYOUTS, kinds, kinds, kinds):
        yield collective, tuple(layouts), result
    for layouts in itertools.product((*kinds, CUT_OUT, WITH_GAPS), repeat=2):
        yield sums, layouts, IN_ROWS


def what_arrives_of(kind, operation):
    """A sum, or another reduction, of tensors that are not dense on the CPU."""
    x = kind(torch.tensor([[0.0, 3.0 + dist.get_rank()], [2.0 * dist.get_rank(), 0.0]]))
    dist.all_reduce(x, operation)
    return (x.layout, x.shape) if x.is_meta else x.to_dense().tolist()


def kind_cases():
    kinds = (torch.Tensor.to_sparse, torch.Tensor.to_sparse_csr, torch.Tensor.to_mkldnn, lambda x: x.to("meta"))
    operations = (dist.ReduceOp.SUM, dist.ReduceOp.AVG, dist.ReduceOp.MAX)
    yield from itertools.product(kinds, operations)


def outcome(look, case):
    try:
        return look(*case)
    except (RuntimeError, ValueError) as error:
        return type(error).__name__


@pytest.mark.parametrize(
    ("look", "cases"),
    [(seen_by_autograd, graph_cases), (what_arrives, layout_cases), (what_arrives_of, kind_cases)],
)
@pytest.mark.filterwarnings("ignore")  # PyTorch warns of old names, sparse tensors and kernels without autograd
@pytest.mark.ranks(2)
def test_a_simulated_collective_does_as_gloo_does(world, look, cases):
    with_gloo = [outcome(look, case) for case in cases()]
    simulated = {}
    with Simulation(world.size) as simulation:
        simulation.expect(lambda each: simulated.update({each.rank: [outcome(look, case) for case in cases()]}))
    for case, *found in zip(cases(), simulated[world.rank], with_gloo, strict=True):
        assert found[0] == found[1], case


@pytest.mark.ranks(2, timeout=300)
def test_gloo_goes_on_beside_a_simulation(world):
    """Its thread may want the interpreter's lock, to free a tensor, before a call can go on."""
    parts = [torch.ones(2), torch.ones(2)]
    with Simulation(2):
        for _ in range(1000):
            dist.scatter(torch.empty(2), parts if world.rank == 0 else None)
