"""AllGatherGradAutograd, backward: every rank's loss counts."""

from __future__ import annotations

import time

import torch

from conformance.kit import NotApplicable, Subject, World, cases, clause, expect, need, ranks
from conformance.kit.gathers.expected import (
    INPUT_LAYOUTS,
    carries,
    central_differences,
    cotangents,
    entries,
    expect_entries,
    expect_gradient,
    expect_nothing_more_kept,
    gradient,
    rank_inputs,
)
from conformance.kit.results import assembled
from conformance.kit.variations.layouts import GRADIENT_LAYOUTS


def _leaf(world: World, shape: tuple[int, ...], dtype: torch.dtype = torch.float64, *key: object) -> torch.Tensor:
    return rank_inputs(world, shape, dtype, *key)[world.rank].requires_grad_()


@clause("AllGatherGradAutograd.backward.sum")
@ranks(2, 3, 4)
@cases(dtype=["float64", "float32", "complex128"])
def test_gradient_is_the_sum_over_ranks(subject: Subject, world: World, dtype: str) -> None:
    """The gradient of x on rank r is the sum, over all ranks s, of the gradient that s holds for entry r."""
    kind = getattr(torch, dtype)
    x, table = _leaf(world, (4,), kind), cotangents(world, (4,), kind)
    actual = gradient(entries(subject, world, x), x, [grad.clone() for grad in table[world.rank]])
    expect_gradient(world, actual, table)


@clause("AllGatherGradAutograd.backward.sum")
@ranks(2, 3)
@cases(dtype=["float16", "bfloat16"])
def test_sum_in_half_precision(subject: Subject, world: World, dtype: str) -> None:
    """Half-precision gradients are summed likewise, if the backend carries them."""
    kind = getattr(torch, dtype)
    carries(world, kind)
    x, table = _leaf(world, (4,), kind), cotangents(world, (4,), kind)
    actual = gradient(entries(subject, world, x), x, [grad.clone() for grad in table[world.rank]])
    expect_gradient(world, actual, table)


@clause("AllGatherGradAutograd.backward.sum")
@ranks(2, 3)
@cases(shape=[(), (1,), (0,), (2, 0, 3), (2, 1, 3, 2), (517, 513)])
def test_sum_in_every_shape(subject: Subject, world: World, shape: tuple[int, ...]) -> None:
    """Gradients of every shape are summed: no dimension, no element, many dimensions, many elements."""
    x, table = _leaf(world, shape), cotangents(world, shape, torch.float64)
    actual = gradient(entries(subject, world, x), x, [grad.clone() for grad in table[world.rank]])
    expect_gradient(world, actual, table)


@clause("AllGatherGradAutograd.backward.sum")
@ranks(2, 3, 4)
def test_gradient_is_that_of_all_losses_together(subject: Subject, world: World) -> None:
    """Moving one element on one rank moves every rank's loss; x's gradient is what they move by together."""
    x, weights = _leaf(world, (2,)), cotangents(world, (2,), torch.float64, "weights")[world.rank]

    def loss(moved: torch.Tensor) -> torch.Tensor:
        gathered = entries(subject, world, moved)
        pairs = zip(weights, gathered, strict=True)
        return torch.stack([(weight * torch.sin(entry)).sum() for weight, entry in pairs]).sum()

    loss(x).backward()
    table = central_differences(world, loss, x)
    expect_gradient(world, x.grad, table, ", by central differences", rtol=1e-6, atol=1e-6)


@clause("AllGatherGradAutograd.backward.sum")
@ranks(2, 3, 4)
def test_sum_of_expanded_gradients(subject: Subject, world: World) -> None:
    """A loss that sums each entry, whose gradients are expanded from one number, counts like any other."""
    x = _leaf(world, (2, 3))
    table = [[torch.full_like(x, (s + 1) * (r - 2.5)).detach() for r in range(world.size)] for s in range(world.size)]
    gathered = entries(subject, world, x)
    factors = [float(grad[0, 0]) for grad in table[world.rank]]
    torch.stack([f * entry.sum() for f, entry in zip(factors, gathered, strict=True)]).sum().backward()
    expect_gradient(world, x.grad, table, ", from expanded gradients")


@clause("AllGatherGradAutograd.backward.sum")
@ranks(2, 3)
@cases(layout=["transposed", "sliced columns", "expanded rows"], who=["all", "one"])
def test_sum_of_gradients_that_are_not_contiguous(subject: Subject, world: World, layout: str, who: str) -> None:
    """Gradients that are not contiguous, on all ranks or on one, are added up element by element."""
    table, given = (
        [[INPUT_LAYOUTS[layout](grad) for grad in row] for row in cotangents(world, (4, 6), torch.float64)]
        for _ in range(2)
    )
    x = _leaf(world, tuple(table[0][0].shape))
    strided = who == "all" or world.rank == world.size - 1
    grads = [grad if strided else grad.contiguous() for grad in given[world.rank]]
    actual = gradient(entries(subject, world, x), x, grads)
    expect_gradient(world, actual, table, f", from gradients laid out {layout} on {who}")


@clause("AllGatherGradAutograd.backward.sum")
@ranks(2, 3)
@cases(
    layout=[
        "expanded from one number",
        "transposed in memory",
        "sliced out of wider memory",
        "cut out of longer memory",
    ]
)
def test_sum_of_one_gradient_that_is_not_contiguous(subject: Subject, world: World, layout: str) -> None:
    """If the result is one tensor, a non-contiguous gradient of it gives the same as a contiguous one."""
    need(subject.form != "tuple", "its result is a tuple, whose entries have separate gradients")
    x, table = _leaf(world, (4, 6)), cotangents(world, (4, 6), torch.float64)
    if layout == "expanded from one number":
        table = [[torch.full_like(grad, rank + 1) for grad in row] for rank, row in enumerate(table)]
    grad = GRADIENT_LAYOUTS[layout](assembled(table[world.rank], subject.form, subject.dim))
    actual = gradient(subject.undivided(x), x, grad)
    expect_gradient(world, actual, table, f", from one gradient {layout}")


@clause("AllGatherGradAutograd.backward.sum")
@ranks(2, 3)
@cases(layout=["transposed", "sliced columns", "permuted"])
def test_gradient_of_an_x_that_is_not_contiguous(subject: Subject, world: World, layout: str) -> None:
    """The gradient of a non-contiguous x has each element in the place that x has it."""
    x = INPUT_LAYOUTS[layout](rank_inputs(world, (4, 6), torch.float64)[world.rank]).detach().requires_grad_()
    table = cotangents(world, tuple(x.shape), torch.float64)
    try:
        gathered = entries(subject, world, x)
    except (RuntimeError, ValueError, TypeError) as error:
        raise NotApplicable(f"an x laid out {layout} raises in forward, so it has no gradient: {error}") from error
    actual = gradient(gathered, x, [grad.clone() for grad in table[world.rank]])
    expect_gradient(world, actual, table, f", with x laid out {layout}")


@clause("AllGatherGradAutograd.backward.sum")
@ranks(2, 3)
def test_sum_does_not_wait_on_the_order_of_ranks(subject: Subject, world: World) -> None:
    """The sum is right when ranks come to backward one after the other."""
    x, table = _leaf(world, (4,)), cotangents(world, (4,), torch.float64)
    gathered = entries(subject, world, x)
    time.sleep(0.02 * (world.size - 1 - world.rank))
    actual = gradient(gathered, x, [grad.clone() for grad in table[world.rank]])
    expect_gradient(world, actual, table, " when ranks come late")


@clause("AllGatherGradAutograd.backward.sum")
@ranks(2, 3)
def test_each_call_has_its_own_sum(subject: Subject, world: World) -> None:
    """Two gathers, then two backward passes in the other order: each x gets the sum of its own call."""
    xs = [_leaf(world, (4,), torch.float64, call) for call in range(2)]
    tables = [cotangents(world, (4,), torch.float64, call) for call in range(2)]
    calls = [entries(subject, world, x) for x in xs]
    actual = {
        call: gradient(calls[call], xs[call], [grad.clone() for grad in tables[call][world.rank]]) for call in (1, 0)
    }
    for call, name in enumerate(("first", "second")):
        expect_gradient(world, actual[call], tables[call], f" in the {name} of two calls", earlier=tables[1 - call])


@clause("AllGatherGradAutograd.backward.sum")
@ranks(2, 3)
def test_sum_within_a_longer_graph(subject: Subject, world: World) -> None:
    """Between other operations, and with x used twice, the chain rule holds over all ranks."""
    x, tables = _leaf(world, (4,)), [cotangents(world, (4,), torch.float64, call) for call in range(2)]
    outputs = [*entries(subject, world, 3 * x), *entries(subject, world, x * x)]
    actual = gradient(outputs, x, [grad.clone() for table in tables for grad in table[world.rank]])
    scale = (
        [torch.full_like(other, 3) for other in rank_inputs(world, (4,), torch.float64)],
        rank_inputs(world, (4,), torch.float64),
    )
    each = range(world.size)
    whole = [[scale[0][r] * tables[0][s][r] + 2 * scale[1][r] * tables[1][s][r] for r in each] for s in each]
    expect_gradient(world, actual, whole, ", for a loss over the gathers of 3 x and x²", rtol=1e-12, atol=1e-12)


@clause("AllGatherGradAutograd.backward.own-memory")
@ranks(2, 3, 4)
def test_gradient_keeps_no_larger_buffer_alive(subject: Subject, world: World) -> None:
    """The gradient of x stands in memory of its own size, not in a corner of all ranks' gradients."""
    x, table = _leaf(world, (64, 4)), cotangents(world, (64, 4), torch.float64)
    actual = gradient(entries(subject, world, x), x, table[world.rank])
    expect_nothing_more_kept(world, actual)


@clause("AllGatherGradAutograd.backward.own-memory")
@ranks(1, 2)
def test_gradient_keeps_no_part_of_what_came_in(subject: Subject, world: World) -> None:
    """If the incoming gradients are parts of a larger tensor, the gradient of x does not keep that alive."""
    x, table = _leaf(world, (64, 4)), cotangents(world, (64, 4), torch.float64)
    parts = torch.stack([*table[world.rank], *table[world.rank]]).unbind()
    actual = gradient(entries(subject, world, x), x, parts[: world.size])
    expect_nothing_more_kept(world, actual)


@clause("AllGatherGradAutograd.backward.one-rank")
@ranks(1)
@cases(shape=[(), (3,), (2, 0), (2, 3)])
def test_one_rank_is_the_identity(subject: Subject, world: World, shape: tuple[int, ...]) -> None:
    """With one rank the only entry is x and its gradient is the gradient of x."""
    x, table = _leaf(world, shape), cotangents(world, shape, torch.float64)
    gathered = entries(subject, world, x)
    actual = gradient(gathered, x, [grad.clone() for grad in table[0]])
    expect_entries(world, gathered, rank_inputs(world, shape, torch.float64))
    expect_gradient(world, actual, table)


@clause("AllGatherGradAutograd.backward.one-rank")
@ranks(1)
def test_one_rank_adds_up_nothing(subject: Subject, world: World) -> None:
    """With one rank a plain loss gives x the gradient it would have without a gather, twice alike."""
    x = _leaf(world, (3,))
    for _ in range(2):
        torch.sin(entries(subject, world, x)[0]).sum().backward()
    expect.close(x.grad, 2 * torch.cos(x.detach()), "the gradient of x after two backward passes on the only rank")
