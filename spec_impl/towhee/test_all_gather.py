"""AllGather: the tensors of all ranks joined, and a gradient that is that of this rank's own loss."""

from __future__ import annotations

import time
from typing import Any

import torch

from conformance.kit import NotApplicable, Subject, World, cases, clause, expect, need, ranks
from conformance.kit.gathers.expected import INPUT_LAYOUTS, carries, rank_inputs, same_bits
from conformance.kit.gathers.mistakes import join_mistakes
from conformance.kit.observation import collectives
from conformance.kit.observation.looks import function_classes
from conformance.kit.observation.witness import witnessing
from conformance.kit.tensors import address
from spec_impl.towhee.spec import NOT_HANDED, Launch, gets_args, launch


def _expect_joined(world: World, actual: Any, tensors: list[torch.Tensor], what: str = "") -> None:
    name = f"the result on rank {world.rank} of {world.size}{what}: all ranks' tensors joined along dimension 0"
    same_bits(actual, torch.cat(tensors), name, join_mistakes(tensors))


@clause("AllGather.forward.concatenates")
@ranks(1, 2, 3, 4)
@cases(requires_grad=[True, False])
def test_tensors_are_joined_in_rank_order(subject: Subject, world: World, requires_grad: bool) -> None:
    """Every rank gets the tensors of all ranks, joined along dimension 0 in rank order."""
    tensors = rank_inputs(world, (3, 2), torch.float64)
    actual = subject(tensors[world.rank].clone().requires_grad_(requires_grad), launch(world))
    _expect_joined(world, actual, tensors)
    expect.equal(actual.requires_grad, requires_grad, f"whether the result on rank {world.rank} requires a gradient")


@clause("AllGather.forward.concatenates")
@ranks(1, 2, 3)
@cases(shape=[(1,), (4,), (0, 3), (2, 0), (3, 3), (2, 1, 3, 1, 2)])
def test_shapes_are_joined_along_the_first_dimension(subject: Subject, world: World, shape: tuple[int, ...]) -> None:
    """Dimension 0 grows by the number of ranks, whatever the other dimensions, empty ones included."""
    tensors = rank_inputs(world, shape, torch.float32)
    _expect_joined(world, subject(tensors[world.rank].clone().requires_grad_(), launch(world)), tensors)


@clause("AllGather.forward.concatenates")
@ranks(2)
@cases(dtype=["float16", "bfloat16", "float32", "complex64", "uint8", "int32", "int64", "bool"])
def test_dtypes_are_kept(subject: Subject, world: World, dtype: str) -> None:
    """The result has the dtype of the tensor, for dtypes that the backend carries."""
    kind = getattr(torch, dtype)
    carries(world, kind)
    tensors = rank_inputs(world, (2, 3), kind)
    _expect_joined(world, subject(tensors[world.rank].clone(), launch(world)), tensors)


@clause("AllGather.forward.concatenates")
@ranks(2, 3)
@cases(first=["first", "last"])
def test_order_is_that_of_ranks_not_of_arrival(subject: Subject, world: World, first: str) -> None:
    """Rows are in rank order, whichever rank calls first or last."""
    tensors = rank_inputs(world, (2, 2), torch.float32)
    behind = world.rank if first == "first" else world.size - 1 - world.rank
    time.sleep(0.02 * behind)
    actual = subject(tensors[world.rank].clone(), launch(world))
    _expect_joined(world, actual, tensors, f" when the {first} rank comes first")


@clause("AllGather.forward.concatenates")
@ranks(1, 2)
def test_special_values_keep_their_bits(subject: Subject, world: World) -> None:
    """Negative zero, infinities and not-a-number arrive bit for bit."""
    special = torch.tensor([-0.0, 0.0, float("inf"), float("-inf"), float("nan"), 1e-42], device=world.device)
    tensors = [special.roll(rank) for rank in range(world.size)]
    _expect_joined(world, subject(tensors[world.rank].clone(), launch(world)), tensors)


@clause("AllGather.forward.concatenates")
@ranks(2, 3)
@cases(layout=["transposed", "sliced columns", "expanded rows", "permuted"], who=["all", "one"])
def test_no_layout_gives_wrong_rows(subject: Subject, world: World, layout: str, who: str) -> None:
    """A non-contiguous tensor, on all ranks or on the last one, is joined correctly, or every rank raises an error."""
    tensors = [INPUT_LAYOUTS[layout](base) for base in rank_inputs(world, (4, 6), torch.float32)]
    strided = who == "all" or world.rank == world.size - 1
    mine = tensors[world.rank] if strided else tensors[world.rank].contiguous()
    try:
        actual, refused = subject(mine, launch(world)), False
    except (RuntimeError, ValueError, TypeError):
        actual, refused = None, True
    if not all(world.exchange(refused)):
        _expect_joined(world, actual, tensors, f" for a tensor that is {layout} on {who}")


@clause("AllGather.forward.one-rank")
@ranks(1, group=False)
@cases(shape=[(3,), (2, 3), (0, 2)])
def test_one_rank_needs_no_process_group(subject: Subject, world: World, shape: tuple[int, ...]) -> None:
    """With args.world_size 1 the values come back if there is no process group at all."""
    need(gets_args(subject, world), NOT_HANDED)
    tensor = rank_inputs(world, shape, torch.float64)[0].requires_grad_()
    with collectives.counted() as calls:
        actual = subject(tensor, Launch(1, 0))
    expect.equal(calls, [], "collectives that one rank starts")
    expect.equal(actual, tensor.detach(), "the result with args.world_size 1, the tensor's own values")


@clause("AllGather.backward.local-slice")
@ranks(1, group=False)
def test_one_rank_gets_its_whole_gradient(subject: Subject, world: World) -> None:
    """With args.world_size 1 the incoming gradient is the tensor's, and no collective is needed for it."""
    tensor = rank_inputs(world, (2, 3), torch.float64)[0].requires_grad_()
    grad = rank_inputs(world, (2, 3), torch.float64, "gradient")[0]
    try:
        actual = subject(tensor, Launch(1, 0))
    except Exception as error:
        raise NotApplicable(f"forward fails without a process group, so there is no gradient: {error}") from error
    # An exception from backward is an error, not a Deviation: PyTorch's message may name another broken clause.
    with collectives.counted() as calls:
        actual.backward(grad.clone())
    expect.equal(calls, [], "collectives that one rank starts")
    expect.equal(tensor.grad, grad, "the gradient of the tensor with args.world_size 1")


@clause("AllGather.forward.one-rank")
@ranks(1, 2)
def test_world_size_is_that_of_args(subject: Subject, world: World) -> None:
    """With args.world_size 1 the tensor's own values come back without a collective, process group or not."""
    need(gets_args(subject, world), NOT_HANDED)
    tensor = rank_inputs(world, (2, 3), torch.float64)[world.rank]
    with collectives.counted() as calls:
        actual = subject(tensor.clone(), Launch(1, 0))
    expect.equal(calls, [], f"collectives on rank {world.rank} with args.world_size 1")
    expect.equal(actual, tensor, f"the result on rank {world.rank} of {world.size} with args.world_size 1")


@clause("AllGather.forward.own-memory")
@ranks(1, 2, 3)
@cases(requires_grad=[True, False])
def test_result_shares_no_memory(subject: Subject, world: World, requires_grad: bool) -> None:
    """The result has memory of its own: neither the tensor's nor that of an earlier result."""
    tensor = rank_inputs(world, (2, 3), torch.float64)[world.rank].requires_grad_(requires_grad)
    memory = {"the tensor": address(tensor)}
    results = [subject(tensor, launch(world)) for _ in range(2)]
    for name, result in zip(("the result", "the result of a second call"), results, strict=True):
        mine = address(result)
        shared = [other for other, own in memory.items() if own is not None and own == mine]
        expect.equal(shared, [], f"what {name} on rank {world.rank} of {world.size} shares its memory with")
        memory[name] = mine


@clause("AllGather.backward.none-for-args")
@ranks(1, 2, 3)
def test_args_get_no_gradient(subject: Subject, world: World) -> None:
    """Backward returns None for args, at any position among the inputs, and autograd accepts it."""
    tensor, args = rank_inputs(world, (2, 3), torch.float64)[world.rank].requires_grad_(), launch(world)
    refusal = ""
    with witnessing(*function_classes(subject, lambda: subject(tensor, args))) as witness:
        joined = subject(tensor, args)
        try:
            joined.backward(torch.ones(joined.shape, dtype=joined.dtype, device=joined.device))
        except RuntimeError as error:
            refusal = str(error)
    where = f"on rank {world.rank} of {world.size}"
    returned = witness.returned_for(args)
    for value in returned:
        expect.that(value is None, f"what backward returns for args {where}", value, "None")
    expect.equal(refusal, "", f"errors in backward {where}")
    need(returned, NOT_HANDED)
