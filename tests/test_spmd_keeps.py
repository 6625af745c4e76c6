"""Which signatures correct and wrong Functions keep, and what is said of those they do not keep."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist

from conformance.core.signatures import parse, strongest
from conformance.kit.spmd.keeps import find
from tests.spmd_world import world


def total(x, group):
    x = x.clone()
    dist.all_reduce(x, group=group)
    return x


def joined(x, group):
    parts = [torch.empty_like(x) for _ in range(dist.get_world_size(group))]
    dist.all_gather(parts, x.contiguous(), group=group)
    return torch.cat(parts)


def own(x, group, rank=None):
    size = dist.get_world_size(group)
    return x.chunk(size)[dist.get_rank(group) if rank is None else rank % size]


def function(forward, backward):
    """A Function of one tensor, with forward and backward of ``(x, group)``."""

    class Made(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, group):
            ctx.group = group
            return forward(x, group)

        @staticmethod
        def backward(ctx, grad):
            return backward(grad, ctx.group), None

    return lambda args, group: [Made.apply(args[0], group)]


def size(group):
    return dist.get_world_size(group)


def first_two(g, group):
    """Adds up what ranks 0 and 1 have, and no others."""
    return total(g if dist.get_rank(group) < 2 else torch.zeros_like(g), group)


same = lambda x, group: x.clone()  # noqa: E731

FUNCTIONS = {
    "identity": function(same, same),
    "identity in parts": function(same, lambda g, group: g / size(group)),
    "copy": function(same, total),
    "copy that forgets the sum": function(same, same),
    "copy with the mean": function(same, lambda g, group: total(g, group) / size(group)),
    "copy right for two ranks alone": function(same, first_two),
    "copy whose gradient is lost": function(same, lambda g, group: None),
    "copy on rank 0 alone": function(same, lambda g, group: total(g, group) * (dist.get_rank(group) == 0)),
    "reduce": function(total, same),
    "reduce and sum again": function(total, total),
    "gather, slice": function(joined, own),
    "gather, sum and slice": function(joined, lambda g, group: own(total(g, group), group)),
    "gather, slice times the number of ranks": function(joined, lambda g, group: own(g, group) * size(group)),
    "gather, slice of the next rank": function(joined, lambda g, group: own(g, group, dist.get_rank(group) + 1)),
    "scatter": function(own, joined),
    "scatter, gradient not gathered": function(
        own, lambda g, group: torch.cat([g if r == dist.get_rank(group) else 0 * g for r in range(size(group))])
    ),
}


def look(ranks, group, name, dtype=torch.float64):
    """What a Function keeps at its strongest, and what is said of each signature."""
    x = torch.randn(2 * ranks.size, dtype=dtype, generator=torch.Generator().manual_seed(1)).requires_grad_()
    findings = find(ranks, lambda args: FUNCTIONS[name](args, group), [x], 1)
    kept = [finding.signature for finding in findings if finding.kept]
    return [str(signature) for signature in strongest(kept)], {str(one.signature): one.why for one in findings}


def looked(name, members=(0, 1), dtype=torch.float64):
    first, *others = world().run(look, members, name, dtype)
    assert others == [first] * len(others), "ranks do not agree"
    return first


KEPT = {
    "identity": ["R -> R", "I -> I", "V -> V", "P -> P"],
    "copy": ["I -> R"],
    "copy that forgets the sum": ["R -> R", "I -> I", "V -> V", "P -> P"],
    "copy with the mean": ["R -> R", "I -> I", "P -> P"],
    "copy right for two ranks alone": [],
    "copy whose gradient is lost": [],
    "copy on rank 0 alone": ["R -> R"],
    "reduce": ["P -> I"],
    "reduce and sum again": ["I -> I", "P -> R"],  # of what is the same everywhere it makes N times that
    "gather, slice": ["V -> I"],
    "gather, sum and slice": ["V -> R"],
    "gather, slice times the number of ranks": ["V -> P"],
    "gather, slice of the next rank": ["R -> I"],  # all slices are there, and no copy differs from the others
    "scatter": ["I -> V"],
    "scatter, gradient not gathered": ["V -> V"],  # right where each rank cuts up a tensor of its own
}


@pytest.mark.parametrize("name", KEPT)
def test_the_strongest_signatures_of_a_function(name):
    assert looked(name, (0, 1, 2))[0] == KEPT[name]


@pytest.mark.parametrize("name", ["copy", "reduce", "gather, slice", "gather, sum and slice", "scatter"])
@pytest.mark.parametrize(
    ("members", "dtype"), [((1, 2), torch.float64), ((2, 0), torch.float64), ((0, 1), torch.complex128)]
)
def test_the_same_in_any_group_and_for_complex_numbers(name, members, dtype):
    assert looked(name, members, dtype)[0] == KEPT[name]


def test_what_is_right_for_two_ranks_is_accused_on_three():
    assert looked("copy right for two ranks alone")[0] == ["I -> R"]


def test_one_rank_keeps_every_signature():
    assert set(looked("copy", (2,))[1].values()) == {""}


def unlike_samples(ranks, group):
    x = torch.full((2,), ranks.rank + 1.0, dtype=torch.float64, requires_grad=True)
    (finding,) = find(ranks, lambda args: FUNCTIONS["copy"](args, group), [x], 1, [parse("I -> R")])
    return finding.why


def test_samples_that_ranks_draw_for_themselves_are_made_alike():
    assert world().run(unlike_samples, (0, 1)) == ["", ""]


WHY = [
    ("gather, slice", "V -> R", "on rank 0 the gradient lacks the contribution of rank 1's loss"),
    ("gather, slice", "R -> R", "the sum of the ranks' gradients has"),
    (
        "gather, slice",
        "P -> I",
        "the result depends on more than the argument's sum: a change on rank 1 has another effect than on rank 0",
    ),
    ("gather, sum and slice", "V -> I", "on rank 0 the gradient is 2 times the expected one"),
    ("gather, slice of the next rank", "V -> I", "on rank 0 the gradient is the gradient that rank 1 must have"),
    ("gather, slice times the number of ranks", "V -> I", "on rank 0 the gradient is 2 times the expected one"),
    (
        "copy that forgets the sum",
        "I -> R",
        "on rank 0 the gradient lacks the contribution of rank 1's loss: a sum over the ranks",
    ),
    (
        "identity in parts",
        "I -> I",
        "on rank 0 the gradient is 0.5 times the expected one: a sum over the ranks",
    ),
    ("copy with the mean", "I -> R", "on rank 0 the gradient is 0.5 times the expected one"),
    ("copy whose gradient is lost", "I -> R", "on rank 0 the gradient is zero"),
    ("copy on rank 0 alone", "I -> R", "on rank 1 the gradient is zero"),
    ("copy", "V -> V", "on rank 0 the gradient is the sum of the gradients that all ranks must have"),
    ("copy", "V -> R", "the result differs between ranks 0 and 1"),
    ("scatter", "R -> V", "the sum of the ranks' gradients is 2 times the expected one"),
    ("scatter, gradient not gathered", "I -> V", "on rank 0 the gradient lacks the contribution of rank 1's loss"),
    ("reduce and sum again", "P -> I", "on rank 0 the gradient is 2 times the expected one"),
]


@pytest.mark.parametrize(("name", "signature", "why"), WHY)
def test_why_a_signature_is_not_kept(name, signature, why):
    assert looked(name)[1][signature].startswith(why)


def several(ranks, group):
    """A nonlinear Function of three tensors, with three results; of each, one has no gradient."""

    class Softmax(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, weight, labels):
            scores = (x * weight).exp()
            everything = total(scores.sum(), group)
            ctx.save_for_backward(x, weight, labels, scores, everything)
            best = (x * weight).argmax()
            ctx.mark_non_differentiable(best)
            return scores[labels] / everything, everything.log(), best

        @staticmethod
        def backward(ctx, shares, log, _):
            x, weight, labels, scores, everything = ctx.saved_tensors
            # The log is the same on every rank and has one loss; every rank's shares depend on the sum over all ranks.
            down = total((shares * scores[labels]).sum(), group) / everything**2
            score = torch.zeros_like(scores).index_add(0, labels, shares / everything) - down + log / everything
            return score * scores * weight, score * scores * x, None

    generator = torch.Generator().manual_seed(0)
    x, weight = (torch.randn(4, dtype=torch.float64, generator=generator).requires_grad_() for _ in range(2))
    samples = [x, weight, torch.tensor([2, 0])]
    asked = [parse(f"{left}, {right}, R -> V, I, V") for left in "RIVP" for right in "RIVP"]
    asked.append(parse("V, R, V -> V, R, V"))
    return [(str(one.signature), one.why) for one in find(ranks, lambda args: Softmax.apply(*args), samples, 3, asked)]


def test_nonlinear_functions_of_several_tensors():
    told = world().run(several, (0, 1, 2))
    assert told[0] == told[1] == told[2]
    found = dict(told[0])
    assert [signature for signature, why in found.items() if not why] == [
        "R, R, R -> V, I, V",
        "R, V, R -> V, I, V",
        "V, R, R -> V, I, V",
        "V, V, R -> V, I, V",
    ]
    assert found["V, I, R -> V, I, V"].startswith(
        "the gradient of argument 1 by result 0 differs between ranks 0 and 1"
    )
    assert found["V, R, V -> V, R, V"].startswith(
        "on rank 0 the gradient of argument 0 by result 1 lacks the contribution of the loss of"
    )
