"""The reference collectives: signatures, values and every derivative, in both forms and in any group."""

from __future__ import annotations

import pytest
import torch
import torch.autograd.forward_ad as forward_ad

from conformance.core.signatures import Type, candidates
from conformance.kit.spmd.keeps import find
from conformance.kit.typed_values import cotangent
from tests.spmd_reference import (
    FORMS,
    MORE,
    NAMES,
    ROWS,
    SOURCE,
    alone,
    both_forms,
    every_name,
    every_world,
    function,
    held,
    sample,
    types,
)  # fmt: skip
from tests.spmd_world import world

#: Every signature that each Function keeps, of the sixteen there are: its own, and those that its own one implies.
KEPT = {
    "Copy": {"I -> R", "I -> V", "I -> P"},
    "Reduce": {"P -> I", "V -> I", "R -> I"},
    "Broadcast": {"V -> R", "V -> V", "V -> P", "R -> R", "R -> V", "R -> P"},
    "ReduceToSource": {"P -> V", "P -> P", "V -> V", "V -> P", "R -> V", "R -> P"},
    "Scatter": {"I -> V", "I -> P"},
    "GatherInvariant": {"V -> I", "R -> I"},
    "GatherReplicate": {"V -> R", "V -> V", "V -> P", "R -> R", "R -> V", "R -> P"},
    "ReduceScatter": {"P -> V", "P -> P", "V -> V", "V -> P", "R -> V", "R -> P"},
    "AllToAll": {"V -> V", "V -> P", "R -> V", "R -> P"},
}
DUAL = {Type.R: Type.P, Type.P: Type.R, Type.V: Type.V, Type.I: Type.I}
LAYOUTS = {
    "contiguous": lambda x: x,
    "transposed": lambda x: x.t().contiguous().t(),
    "sliced": lambda x: x.repeat_interleave(2, 1)[:, ::2],
    "expanded": lambda x: x[:1].expand(x.shape),
    "empty": lambda x: x[:, :0],
}


def expected(name, everyones, rank):
    """What a rank must get, computed from what all ranks hold."""
    size, mine = len(everyones), everyones[rank]
    match name:
        case "Copy":
            return mine
        case "Reduce":
            return sum(everyones[1:], everyones[0])
        case "Broadcast":
            return everyones[SOURCE]
        case "ReduceToSource":
            return sum(everyones[1:], everyones[0]) if rank == SOURCE else torch.zeros_like(mine)
        case "Scatter":
            return mine.tensor_split(size)[rank]
        case "GatherInvariant" | "GatherReplicate":
            return torch.cat(everyones)
        case "ReduceScatter":
            return sum(everyones[1:], everyones[0]).tensor_split(size)[rank]
        case "AllToAll":
            return torch.cat([x.tensor_split(size)[rank] for x in everyones])


def kept(ranks, group, name, form):
    findings = find(
        ranks, lambda args: [function(name, group, form)(*args)], [sample(ranks)[:, :2].requires_grad_()], 1
    )
    return {str(finding.signature) for finding in findings if finding.kept}


@every_world
@both_forms
@every_name
def test_the_signatures_that_are_kept(name, form, members):
    for found in world().run(kept, members, name, form):
        assert found == KEPT[name]


@every_name
def test_what_is_kept_is_what_the_documented_types_imply(name):
    assert {str(one) for one in candidates(1, 1) if types(name).implies(one)} == KEPT[name]


def kept_complex(ranks, group, name, form):
    x = sample(ranks, dtype=torch.complex128).requires_grad_()
    (finding,) = find(ranks, lambda args: [function(name, group, form)(*args)], [x], 1, [types(name)])
    return finding.why


@both_forms
@every_name
def test_complex_gradients_are_those_that_the_types_owe(name, form):
    assert world().run(kept_complex, (0, 1, 2), name, form) == [""] * 3


def derivative_kept(ranks, group, name, form):
    """What is wrong with the derivative of backward, as a Function from gradient to gradient."""
    run, signature = function(name, group, form), types(name)
    x = held(ranks, name, sample(ranks)[:, :2])[ranks.rank].requires_grad_()
    gradient = torch.randn(run(x).shape, dtype=x.dtype, generator=torch.Generator().manual_seed(5))
    back = type(signature)((DUAL[signature.results[0]],), (DUAL[signature.arguments[0]],))

    def backward(arguments):
        return torch.autograd.grad(run(x), x, arguments[0], create_graph=True)

    (finding,) = find(ranks, backward, [gradient.requires_grad_()], 1, [back])
    return finding.why


@pytest.mark.parametrize("members", [(0, 1, 2), (2, 0)], ids=str)
@both_forms
@every_name
def test_backward_can_be_differentiated(name, form, members):
    assert world().run(derivative_kept, members, name, form) == [""] * len(members)


def third(ranks, group, name, form):
    """The third derivative of the sum of cubes, which is 6 for what a rank alone contributes to itself."""
    x = held(ranks, name, sample(ranks))[ranks.rank].requires_grad_()
    y = function(name, group, form)(x)
    (first,) = torch.autograd.grad(y.pow(3).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x, create_graph=True)
    return torch.autograd.grad(second.sum(), x)[0]


@both_forms
@alone
def test_differentiated_three_times_on_one_rank(name, form):
    (found,) = world().run(third, (2,), name, form)
    assert torch.allclose(found, torch.full_like(found, 6.0))


def values(ranks, group, name, layout, dtype):
    everyones = [LAYOUTS[layout](x) for x in held(ranks, name, sample(ranks, dtype=dtype))]
    actual = [function(name, group, form)(everyones[ranks.rank]) for form in FORMS]
    assert torch.equal(actual[0], actual[1])
    wanted = expected(name, everyones, ranks.rank)
    if "Reduce" in name:  # sums may be added up in another order
        torch.testing.assert_close(actual[0], wanted, **({"rtol": 0.02, "atol": 0.05} if dtype.itemsize == 2 else {}))
    else:
        assert torch.equal(actual[0], wanted)
    assert name == "Copy" or actual[0].is_contiguous()


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.complex64, torch.int64], ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
@every_name
def test_results_are_right_in_any_layout_and_dtype(name, layout, dtype):
    world().run(values, (0, 1, 2), name, layout, dtype)


@every_world
@every_name
def test_results_are_right_in_any_group(name, members):
    world().run(values, members, name, "contiguous", torch.float64)


def scalar(ranks, group, name):
    everyones = [
        torch.tensor(rank + 1.0) if types(name).arguments[0].differs else torch.tensor(1.0)
        for rank in range(ranks.size)
    ]
    assert torch.equal(function(name, group)(everyones[ranks.rank]), expected(name, everyones, ranks.rank))


@pytest.mark.parametrize("name", [name for name in NAMES if name not in ROWS])
def test_tensors_without_dimensions_are_taken(name):
    world().run(scalar, (0, 1, 2), name)


def own_memory(ranks, group, name):
    x = held(ranks, name, sample(ranks))[ranks.rank]
    y = function(name, group)(x)
    return y.untyped_storage().data_ptr() != x.untyped_storage().data_ptr(), y.untyped_storage().nbytes() == y.nbytes


@pytest.mark.parametrize("members", [(0, 1), (2,)], ids=str)
@pytest.mark.parametrize("name", [name for name in NAMES if name not in ("Copy", *MORE)])
def test_results_have_memory_of_their_own(name, members):
    assert world().run(own_memory, members, name) == [(True, True)] * len(members)


def layouts_of_gradients(ranks, group, name, form, way):
    """The gradient for a gradient in an odd layout, and for the same numbers in order."""
    found = []
    for odd in (True, False):
        x = held(ranks, name, sample(ranks, dtype=torch.complex128))[ranks.rank].requires_grad_()
        y = function(name, group, form)(x)
        g = {
            "expanded": torch.ones((), dtype=y.dtype).expand(y.shape),
            "transposed": cotangent(types(name).results[0], y, ranks.rank).t().contiguous().t(),
            "conjugated": cotangent(types(name).results[0], y, ranks.rank).conj(),
            "odd on one rank alone": torch.ones((), dtype=y.dtype).expand(y.shape)
            if ranks.rank
            else torch.ones_like(y),
        }[way]
        given = g if odd else g.resolve_conj().clone(memory_format=torch.contiguous_format)
        found.append(torch.autograd.grad(y, x, given)[0])
    return torch.equal(*found)


@pytest.mark.parametrize("way", ["expanded", "transposed", "conjugated", "odd on one rank alone"])
@both_forms
@every_name
def test_gradients_in_any_layout(name, form, way):
    assert world().run(layouts_of_gradients, (0, 1, 2), name, form, way) == [True] * 3


def adjoint(ranks, group, name, form):
    """Both sides of the adjoint identity, as this rank's part."""
    kind, result = types(name).arguments[0], types(name).results[0]
    x = held(ranks, name, sample(ranks))[ranks.rank]
    tangent = held(ranks, name, sample(ranks, "tangent"))[ranks.rank]
    run = function(name, group, form)
    with forward_ad.dual_level():
        change = forward_ad.unpack_dual(run(forward_ad.make_dual(x, tangent))).tangent
    y = run(x.requires_grad_())
    g = cotangent(result, y, ranks.rank)
    (gradient,) = torch.autograd.grad(y, x, g)
    forward = float((g * change).sum()) / (ranks.size if result is Type.I else 1)
    backward = float((gradient * tangent).sum()) / (ranks.size if kind is Type.I else 1)
    return forward, backward


@every_world
@both_forms
@every_name
def test_tangents_are_adjoint_to_gradients(name, form, members):
    parts = world().run(adjoint, members, name, form)
    assert sum(forward for forward, _ in parts) == pytest.approx(sum(backward for _, backward in parts))
