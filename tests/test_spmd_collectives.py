"""The reference collectives: values, signatures, every derivative, vmap and errors, in both forms and in any group."""

from __future__ import annotations

import re

import pytest
import torch
import torch.autograd.forward_ad as forward_ad

from conformance.core.signatures import Type, candidates, parse
from conformance.kit.spmd.keeps import find
from conformance.kit.spmd.values import argument, cotangent
from spec_impl import collectives, collectives_exchange, collectives_gather, collectives_scatter, collectives_source
from tests.spmd_world import world

MODULES = (collectives, collectives_source, collectives_scatter, collectives_gather, collectives_exchange)
SOURCE = 1
#: The arguments between the tensor and the group.
MORE = {"Broadcast": (SOURCE,), "ReduceToSource": (SOURCE,)}
ROWS = ("Scatter", "GatherInvariant", "GatherReplicate", "ReduceScatter", "AllToAll")
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
NAMES = tuple(KEPT)
FORMS = ("", "Separate")
WORLDS = [(0, 1), (0, 1, 2), (1, 2), (2, 0)]
DUAL = {Type.R: Type.P, Type.P: Type.R, Type.V: Type.V, Type.I: Type.I}
LAYOUTS = {
    "contiguous": lambda x: x,
    "transposed": lambda x: x.t().contiguous().t(),
    "sliced": lambda x: x.repeat_interleave(2, 1)[:, ::2],
    "expanded": lambda x: x[:1].expand(x.shape),
    "empty": lambda x: x[:, :0],
}

both_forms = pytest.mark.parametrize("form", FORMS, ids=["combined", "separate"])
every_name = pytest.mark.parametrize("name", NAMES)
# A group of one rank lacks the source.
alone = pytest.mark.parametrize("name", [name for name in NAMES if name not in MORE])
every_world = pytest.mark.parametrize("members", WORLDS, ids=str)


def function(name, group, form=""):
    (home,) = (module for module in MODULES if hasattr(module, name))
    cls = getattr(home, name + form)
    return lambda x: cls.apply(x, *MORE.get(name, ()), group)


def types(name):
    (home,) = (module for module in MODULES if hasattr(module, name))
    return parse(getattr(home, name).TYPES)


def sample(ranks, *key, dtype=torch.float64):
    """The same on every rank: rows for every rank, twice."""
    generator = torch.Generator().manual_seed(len(key))
    if not (dtype.is_floating_point or dtype.is_complex):
        return torch.randint(0, 9, (2 * ranks.size, 3), generator=generator).to(dtype)
    wide = torch.complex128 if dtype.is_complex else torch.float64
    return torch.randn(2 * ranks.size, 3, dtype=wide, generator=generator).to(dtype)


def held(ranks, name, x):
    """What every rank holds, by the type that the Function takes."""
    return [argument(types(name).arguments[0], x, rank) for rank in range(ranks.size)]


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
def test_complex_gradients(name, form):
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
def test_values(name, layout, dtype):
    world().run(values, (0, 1, 2), name, layout, dtype)


@every_world
@every_name
def test_values_in_any_group(name, members):
    world().run(values, members, name, "contiguous", torch.float64)


def scalar(ranks, group, name):
    everyones = [
        torch.tensor(rank + 1.0) if types(name).arguments[0].differs else torch.tensor(1.0)
        for rank in range(ranks.size)
    ]
    assert torch.equal(function(name, group)(everyones[ranks.rank]), expected(name, everyones, ranks.rank))


@pytest.mark.parametrize("name", [name for name in NAMES if name not in ROWS])
def test_scalars(name):
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


def mapped(ranks, group, name, dim):
    """Mapped and looped: results and gradients."""
    run = function(name, group, "Separate")
    samples = [held(ranks, name, sample(ranks, *[0] * at))[ranks.rank] for at in range(4)]
    x = torch.stack(samples, dim)
    assert torch.equal(torch.vmap(run, dim)(x), torch.stack([run(one) for one in samples]))

    def gradient(one):
        return torch.func.grad(lambda z: run(z).pow(3).sum())(one)

    expected = torch.stack([gradient(one) for one in samples])
    assert torch.allclose(torch.vmap(gradient, dim)(x), expected)
    assert torch.allclose(torch.vmap(torch.vmap(gradient, dim), 0)(x[None])[0], expected)


@pytest.mark.parametrize("dim", [0, 1, 2])
@every_name
def test_vmap_is_the_loop(name, dim):
    world().run(mapped, (0, 1, 2), name, dim)


def mapped_vectors(ranks, group, name):
    run = function(name, group, "Separate")
    x = torch.arange(12.0 * ranks.size).view(3, -1)
    assert torch.equal(torch.vmap(run)(x), torch.stack([run(one) for one in x]))


@every_name
def test_vectors_can_be_mapped(name):
    world().run(mapped_vectors, (0, 1), name)


def constant_on_one_rank(ranks, group, name):
    """Mapped and looped, where the gradient handed in is one for all samples on rank 0 and differs on the others."""
    run = function(name, group, "Separate")
    x = torch.stack([held(ranks, name, sample(ranks, *[0] * at))[ranks.rank] for at in range(4)])
    scale = (lambda z: 1.0) if ranks.rank == 0 else (lambda z: z.detach().sum())

    def gradient(one):
        return torch.func.grad(lambda z: (scale(one) * run(z)).sum())(one)

    assert torch.allclose(torch.vmap(gradient)(x), torch.stack([gradient(one) for one in x]))


@every_name
def test_vmap_of_gradients_that_are_constant_on_one_rank(name):
    world().run(constant_on_one_rank, (0, 1, 2), name)


def jacobians(ranks, group, name):
    """Forward mode, and reverse mode: of what rank 0 gives alone, or all ranks together."""
    x = held(ranks, name, sample(ranks)[:, :1])[ranks.rank]
    run = function(name, group, "Separate")
    return torch.func.jacfwd(run)(x), torch.func.jacrev(run)(x)


@alone
def test_jacobians_agree_on_one_rank(name):
    ((forward, reverse),) = world().run(jacobians, (2,), name)
    assert torch.equal(forward, reverse)
    assert forward.any()


def raised(ranks, group, name, case):
    x = sample(ranks)
    if case == "shapes":
        x = x.repeat(1, 1 + ranks.rank)
    elif case == "dtypes":
        x = x.to(torch.float32 if ranks.rank else torch.float64)
    elif case == "0-d":
        x = torch.tensor(1.0)
    elif case == "rows":
        x = torch.ones(ranks.size + 1, 2)
    try:
        function(name, group)(x)
    except ValueError as error:
        return str(error)


COMMUNICATE = [name for name in NAMES if name not in ("Copy", "Scatter")]
ERRORS = [
    *[(name, "shapes", "do not agree.* rank 0 has .*rank 1 has") for name in COMMUNICATE],
    *[(name, "dtypes", "do not agree.*torch.float64.*torch.float32") for name in COMMUNICATE],
    *[(name, "0-d", "a 0-d tensor has no rows") for name in ROWS],
    *[
        (name, "rows", "3 rows cannot be shared out evenly among 2 ranks")
        for name in ("Scatter", "ReduceScatter", "AllToAll")
    ],
]


@pytest.mark.parametrize(("name", "case", "words"), ERRORS)
def test_errors_are_raised_on_every_rank(name, case, words):
    for message in world().run(raised, (0, 1), name, case):
        assert re.search(words, message)


def scalar_samples(ranks, group, name):
    with pytest.raises(ValueError, match="a 0-d tensor has no rows"):
        torch.vmap(function(name, group, "Separate"))(torch.ones(ranks.size))


@pytest.mark.parametrize("name", ROWS)
def test_samples_without_rows_are_not_given_those_of_vmap(name):
    world().run(scalar_samples, (0, 1), name)


def no_such_source(ranks, group, name):
    cls = getattr(collectives_source, name)
    with pytest.raises(ValueError, match="source 2 is no rank of a process group of 2"):
        cls.apply(torch.ones(2), 2, group)


@pytest.mark.parametrize("name", MORE)
def test_a_source_must_be_a_rank_within_the_group(name):
    world().run(no_such_source, (1, 2), name)


def needs_nothing(ranks, group, name, form):
    y = function(name, group, form)(sample(ranks))
    return y.requires_grad


@both_forms
@every_name
def test_what_needs_no_gradient_gets_no_graph(name, form):
    assert world().run(needs_nothing, (0, 1), name, form) == [False, False]


def outside(ranks, group, name):
    import torch.distributed as dist

    apart = dist.new_group([0])
    if ranks.rank:
        with pytest.raises(ValueError, match="not a rank of the process group"):
            function(name, apart)(sample(ranks))


@every_name
def test_a_process_outside_the_group_is_told(name):
    world().run(outside, (0, 1, 2), name)
