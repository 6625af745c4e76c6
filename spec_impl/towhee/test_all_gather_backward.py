"""AllGather, backward: the rows of the incoming gradient that are this rank's, and nothing of other ranks."""

from __future__ import annotations

import torch

from conformance.kit import Deviation, Subject, World, cases, clause, expect, need, ranks
from conformance.kit.gathers.expected import (
    INPUT_LAYOUTS,
    central_differences,
    cotangents,
    exact_to,
    expect_nothing_more_kept,
    gradient,
    rank_inputs,
)
from conformance.kit.gathers.mistakes import Table, slice_mistakes
from conformance.kit.results import assembled
from conformance.kit.variations.layouts import GRADIENT_LAYOUTS
from spec_impl.towhee.spec import launch


def _leaf(world: World, shape: tuple[int, ...], dtype: torch.dtype = torch.float64, *key: object) -> torch.Tensor:
    return rank_inputs(world, shape, dtype, *key)[world.rank].requires_grad_()


def _expect_slice(world: World, actual: torch.Tensor | None, table: Table, what: str = "", **tolerance: float) -> None:
    rank, expected = world.rank, table[world.rank][world.rank]
    name = f"the gradient on rank {rank} of {world.size}{what}: rank {rank}'s rows of its own incoming gradient"
    if actual is None:
        raise Deviation(name, None, expect.shown(expected), "the graph is cut: the tensor gets no gradient")
    close = tolerance or exact_to(expected.dtype)
    mistakes = slice_mistakes(table, rank)
    expect.close(actual, expected, name, rtol=close["rtol"], atol=close["atol"], alternatives=mistakes)


@clause("AllGather.backward.local-slice")
@ranks(1, 2, 3, 4)
@cases(dtype=["float64", "float32", "complex128"])
def test_gradient_is_this_rank_s_rows(subject: Subject, world: World, dtype: str) -> None:
    """The gradient is this rank's rows of the incoming gradient, not reduced."""
    kind = getattr(torch, dtype)
    x, table = _leaf(world, (2, 3), kind), cotangents(world, (2, 3), kind)
    actual = gradient(subject(x, launch(world)), x, torch.cat(table[world.rank]))
    _expect_slice(world, actual, table)


@clause("AllGather.backward.local-slice")
@ranks(2, 3)
@cases(shape=[(1,), (4,), (0, 3), (2, 0), (3, 3), (2, 1, 3, 2)])
def test_rows_in_every_shape(subject: Subject, world: World, shape: tuple[int, ...]) -> None:
    """Rows are counted along dimension 0, whatever the other dimensions."""
    x, table = _leaf(world, shape), cotangents(world, shape, torch.float64)
    actual = gradient(subject(x, launch(world)), x, torch.cat(table[world.rank]))
    _expect_slice(world, actual, table)


@clause("AllGather.backward.local-slice")
@ranks(1, 2, 3, 4)
def test_gradient_is_that_of_this_rank_s_own_loss(subject: Subject, world: World) -> None:
    """Moving one element on this rank moves its own loss by the gradient; other ranks' losses do not enter."""
    x, weight = _leaf(world, (2,)), torch.cat(cotangents(world, (2,), torch.float64, "weights")[world.rank])

    def loss(moved: torch.Tensor) -> torch.Tensor:
        return (weight * torch.sin(subject(moved, launch(world)))).sum()

    loss(x).backward()
    table = central_differences(world, loss, x)
    _expect_slice(world, x.grad, table, ", by central differences", rtol=1e-6, atol=1e-6)


@clause("AllGather.backward.local-slice")
@ranks(2, 3)
@cases(layout=["transposed", "sliced columns", "expanded from one element"])
def test_rows_of_a_gradient_that_is_not_contiguous(subject: Subject, world: World, layout: str) -> None:
    """Rows of an incoming gradient that is transposed, sliced or expanded are the rows that it reads."""
    base = torch.cat(cotangents(world, (4, 6), torch.float64)[world.rank])
    whole = (
        INPUT_LAYOUTS[layout](base) if layout != "expanded from one element" else base[0, 0].expand(2 * world.size, 3)
    )
    rows = whole.shape[0] - whole.shape[0] % world.size
    parts = list(whole[:rows].chunk(world.size))
    x = _leaf(world, tuple(parts[0].shape))
    actual = gradient(subject(x, launch(world)), x, whole[:rows])
    table = [parts if s == world.rank else [p * 0 for p in parts] for s in range(world.size)]
    _expect_slice(world, actual, table, f", from a gradient laid out {layout}")


@clause("AllGather.backward.local-slice")
@ranks(2, 3)
@cases(
    layout=[
        "expanded from one number",
        "transposed in memory",
        "sliced out of wider memory",
        "cut out of longer memory",
    ]
)
def test_rows_of_one_gradient_that_is_not_contiguous(subject: Subject, world: World, layout: str) -> None:
    """If the result is one tensor, a non-contiguous gradient of it gives the same as a contiguous one."""
    documented = (subject.form, subject.dim) == ("joined", 0)
    need(subject.form != "tuple" and not documented, "its result has another form, which other tests judge")
    x, table = _leaf(world, (4, 6)), cotangents(world, (4, 6), torch.float64)
    if layout == "expanded from one number":
        table = [[torch.full_like(grad, rank + 1) for grad in row] for rank, row in enumerate(table)]
    grad = GRADIENT_LAYOUTS[layout](assembled(table[world.rank], subject.form, subject.dim))
    actual = gradient(subject.undivided(x, launch(world)), x, grad)
    _expect_slice(world, actual, table, f", from one gradient {layout}")


@clause("AllGather.backward.local-slice")
@ranks(2, 3)
def test_each_call_has_its_own_rows(subject: Subject, world: World) -> None:
    """Two gathers of different heights, then two backward passes in the other order: each gets its own rows."""
    heights = (2, 3)
    xs = [_leaf(world, (height, 2), torch.float64) for height in heights]
    tables = [cotangents(world, (height, 2), torch.float64) for height in heights]
    outputs = [subject(x, launch(world)) for x in xs]
    actual = {call: gradient(outputs[call], xs[call], torch.cat(tables[call][world.rank])) for call in (1, 0)}
    for call, name in enumerate(("first", "second")):
        _expect_slice(world, actual[call], tables[call], f" of the {name} of two calls")


@clause("AllGather.backward.local-slice")
@ranks(2, 3)
def test_rows_within_a_longer_graph(subject: Subject, world: World) -> None:
    """Between other operations the chain rule holds for this rank's own loss."""
    x, table = _leaf(world, (2, 3)), cotangents(world, (2, 3), torch.float64)
    (subject(3 * x, launch(world)) * torch.cat(table[world.rank])).sum().backward()
    _expect_slice(world, x.grad, [[3 * grad for grad in row] for row in table], ", for a loss over the gather of 3 x")


@clause("AllGather.backward.own-memory")
@ranks(2, 3)
def test_gradient_keeps_the_joined_one_alive_no_longer(subject: Subject, world: World) -> None:
    """The gradient stands in memory of its own size, and is no view of the gradient of the joined tensor."""
    x, table = _leaf(world, (64, 4)), cotangents(world, (64, 4), torch.float64)
    actual = gradient(subject(x, launch(world)), x, torch.cat(table[world.rank]))
    expect_nothing_more_kept(world, actual)
