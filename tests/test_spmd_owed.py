"""What is owed agrees with autograd on a function of all ranks together, written out on one process."""

from __future__ import annotations

import functools

import pytest
import torch
import torch.distributed as dist

from conformance.core.signatures import Type, parse
from conformance.kit.spmd.owed import Slopes, backward, loss_slopes
from conformance.kit.typed_values import argument, cotangent
from tests.spmd_world import world

SIGNATURE = parse("V, R, I, P -> V, R, I, P")
WORLDS = [(0, 1), (0, 1, 2), (1, 2), (2,)]


def samples(dtype):
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(3, dtype=dtype, generator=generator).requires_grad_() for _ in SIGNATURE.arguments]


def shares(v, r, i, p):
    """What one rank adds to the sums over all ranks."""
    return torch.stack([v * v * r, p, v.sin() * i])


def results(v, r, i, p, totals):
    """What one rank returns, given the sums over all ranks: one result of each type."""
    first, partial, third = totals
    return [
        first * v + partial.exp() * r * i,
        first.exp() * r * partial,
        partial.sin() * i * first,
        v * first + v * i * third * partial,
    ]


def distributed(group):
    def run(arguments):
        total = shares(*arguments).detach()
        dist.all_reduce(total, group=group)
        return results(*arguments, total)

    return run


def owed(ranks, run, arguments, losses):
    """The slopes of losses by the types of the signature: one by a result of type I is shared by all ranks."""
    kinds = SIGNATURE.results
    parts = [
        [g / ranks.size if g is not None and kind is Type.I else g for kind, g in zip(kinds, loss, strict=True)]
        for loss in losses
    ]
    return loss_slopes(ranks, run, arguments, [kind.differs for kind in SIGNATURE.arguments], parts)


def found_on_ranks(ranks, group, dtype):
    arguments = [
        argument(kind, x, ranks.rank, at)
        for at, (kind, x) in enumerate(zip(SIGNATURE.arguments, samples(dtype), strict=True))
    ]
    given = [
        cotangent(kind, y, ranks.rank, at)
        for at, (kind, y) in enumerate(zip(SIGNATURE.results, distributed(group)(arguments), strict=True))
    ]
    (slopes,) = owed(ranks, distributed(group), arguments, [given])
    return [one.gradient(ranks.rank).tolist() for one in slopes]


def two_ways(ranks, group):
    """What a loss owes of which each rank uses other results: by differences of its own, and added up."""
    arguments = [
        argument(kind, x, ranks.rank, at)
        for at, (kind, x) in enumerate(zip(SIGNATURE.arguments, samples(torch.float64), strict=True))
    ]
    given = [
        cotangent(kind, y, ranks.rank, at)
        for at, (kind, y) in enumerate(zip(SIGNATURE.results, distributed(group)(arguments), strict=True))
    ]
    used = [[at for at in range(len(given)) if (at + rank) % 3] for rank in range(ranks.size)]
    partial = [g if at in used[ranks.rank] else torch.zeros_like(g) for at, g in enumerate(given)]
    alone = [[g if at == one else None for at, g in enumerate(given)] for one in range(len(given))]
    whole, *each = owed(ranks, distributed(group), arguments, [partial, *alone])
    added = [[one.on([at in own for own in used]) for one in row] for at, row in enumerate(each)]
    sums = [functools.reduce(Slopes.plus, column) for column in zip(*added, strict=True)]
    return [(one.table, one.noise, other.table, other.noise) for one, other in zip(whole, sums, strict=True)]


@pytest.mark.parametrize("members", WORLDS)
def test_a_loss_owes_what_its_results_owe_together(members):
    """Only the noise of a result that a loss uses, where it uses it, is part of that of the loss."""
    for found in world().run(two_ways, members):
        for table, noise, added, added_noise in found:
            assert torch.allclose(table, added, rtol=1e-6, atol=1e-6)
            assert added_noise == pytest.approx(noise)


def expected_together(size, dtype):
    """The gradient of the one loss by what each rank holds, where copies that move together are one tensor."""
    kinds = SIGNATURE.arguments
    held = [
        [argument(kind, x, rank, at) for at, (kind, x) in enumerate(zip(kinds, samples(dtype), strict=True))]
        for rank in range(size)
    ]
    for at, kind in enumerate(kinds):
        if not kind.differs:
            for rank in held[1:]:
                rank[at] = held[0][at]
    totals = sum(shares(*rank) for rank in held)
    every = [results(*rank, totals) for rank in held]
    loss = 0.0
    for at, kind in enumerate(SIGNATURE.results):
        terms = [(cotangent(kind, y[at], rank, at).conj() * y[at]).real.sum() for rank, y in enumerate(every)]
        loss = loss + (terms[0] if kind is Type.I else sum(terms))
    return [[x.tolist() for x in torch.autograd.grad(loss, rank, retain_graph=True)] for rank in held]


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128], ids=str)
@pytest.mark.parametrize("members", WORLDS, ids=str)
def test_differences_over_all_ranks_agree_with_autograd_over_all_ranks(members, dtype):
    actual = world().run(found_on_ranks, members, dtype)
    expected = expected_together(len(members), dtype)
    for rank in range(len(members)):
        for at in range(len(SIGNATURE.arguments)):
            torch.testing.assert_close(
                torch.tensor(actual[rank][at]), torch.tensor(expected[rank][at]), rtol=1e-6, atol=1e-6
            )


def test_backward_gives_none_where_the_graph_is_cut_and_where_nothing_was_asked():
    x, y = torch.ones(2, requires_grad=True), torch.ones(2)
    assert backward(lambda args: [args[0].detach()], [x, y], [torch.ones(2)]) == [None, None]
    gradient, nothing = backward(lambda args: [args[0] * args[1]], [x, y], [torch.ones(2)])
    assert gradient.tolist() == [1.0, 1.0]
    assert nothing is None


def one_argument_without_gradient(ranks, group):
    weights, index = torch.ones(3, dtype=torch.float64), torch.tensor([2, 0])
    run = lambda args: [args[0][args[1]]]  # noqa: E731
    loss = [torch.tensor([1.0, 5.0], dtype=torch.float64)]
    (slopes,) = loss_slopes(ranks, run, [weights, index], [True, False], [loss])
    return slopes[0].gradient(ranks.rank).tolist(), slopes[1]


def test_whole_numbers_are_not_moved():
    for gradient, none in world().run(one_argument_without_gradient, (0, 1)):
        assert gradient == pytest.approx([5.0, 0.0, 1.0])
        assert none is None
