"""AllGatherGradAutograd, forward: what every rank gets."""

from __future__ import annotations

import time
from collections.abc import Sequence

import torch

from conformance.kit import Deviation, Subject, World, cases, clause, expect, need, ranks
from conformance.kit.gathers.expected import INPUT_LAYOUTS, carries, entries, expect_entries, rank_inputs, same_bits
from conformance.kit.gathers.mistakes import entry_mistakes
from conformance.kit.results import likely_form, misshaped
from conformance.kit.tensors import address


@clause("AllGatherGradAutograd.forward.every-rank")
@ranks(1, 2, 3, 4)
def test_result_is_a_tuple_with_an_entry_for_each_rank(subject: Subject, world: World) -> None:
    """With N ranks the result is a tuple of N tensors."""
    x = rank_inputs(world, (2, 3), torch.float32)[world.rank].requires_grad_()
    outputs = subject(x)
    if wrong := misshaped(outputs, world.size):
        raise Deviation(f"on rank {world.rank}", wrong, "a tuple of tensors", likely_form(outputs, x, world.size))
    what = f"the result on rank {world.rank} of {world.size}"
    expect.that(isinstance(outputs, tuple), f"{what} is a tuple", type(outputs).__name__, "tuple")
    kinds = [type(output).__name__ for output in outputs if not isinstance(output, torch.Tensor)]
    expect.equal(kinds, [], f"{what}: types of non-tensor entries")


@clause("AllGatherGradAutograd.forward.every-rank")
@ranks(1, 2, 3, 4)
@cases(dtype=["float64", "float32", "complex128", "int64", "bool"], requires_grad=[True, False])
def test_entry_s_is_the_tensor_of_rank_s(subject: Subject, world: World, dtype: str, requires_grad: bool) -> None:
    """On every rank, entry s is the tensor of rank s, whether or not a gradient is wanted."""
    kind = getattr(torch, dtype)
    need(not requires_grad or kind.is_floating_point or kind.is_complex, f"a tensor of {dtype} has no gradient")
    tensors = rank_inputs(world, (3, 2), kind)
    actual = entries(subject, world, tensors[world.rank].clone().requires_grad_(requires_grad))
    expect_entries(world, actual, tensors)


@clause("AllGatherGradAutograd.forward.every-rank")
@ranks(2, 3)
@cases(first=["first", "last"])
def test_order_is_that_of_ranks_not_of_arrival(subject: Subject, world: World, first: str) -> None:
    """Entries are in rank order, whichever rank calls first or last."""
    tensors = rank_inputs(world, (4,), torch.float32)
    behind = world.rank if first == "first" else world.size - 1 - world.rank
    time.sleep(0.02 * behind)
    actual = entries(subject, world, tensors[world.rank].clone())
    expect_entries(world, actual, tensors, f" when the {first} rank comes first")


@clause("AllGatherGradAutograd.forward.every-rank")
@ranks(1, 2, 3)
@cases(dtype=["float32", "float64"])
def test_special_values_keep_their_bits(subject: Subject, world: World, dtype: str) -> None:
    """Negative zero, infinities, not-a-number, the largest and the smallest number arrive bit for bit."""
    limits = torch.finfo(getattr(torch, dtype))
    special = [-0.0, 0.0, float("inf"), float("-inf"), float("nan"), limits.max, limits.tiny, limits.tiny / 8]
    tensors = [
        torch.tensor(special, dtype=getattr(torch, dtype), device=world.device).roll(r) for r in range(world.size)
    ]
    actual = entries(subject, world, tensors[world.rank].clone())
    expect_entries(world, actual, tensors)


@clause("AllGatherGradAutograd.forward.every-rank")
@ranks(2, 3)
@cases(shape=[(31, 67), (257, 513)])
def test_many_elements_arrive_whole(subject: Subject, world: World, shape: tuple[int, ...]) -> None:
    """A tensor larger than one message arrives whole, and so does a far larger one."""
    tensors = rank_inputs(world, shape, torch.float32)
    actual = entries(subject, world, tensors[world.rank].clone().requires_grad_())
    expect_entries(world, actual, tensors)


@clause("AllGatherGradAutograd.forward.every-rank")
@ranks(1, 2, 3)
def test_each_call_gathers_anew(subject: Subject, world: World) -> None:
    """A second call with other values gives these, and a third with another shape gives that."""
    first, second, third = (
        rank_inputs(world, (4,), torch.float32),
        rank_inputs(world, (4,), torch.float32, 2),
        rank_inputs(world, (2, 3), torch.float32),
    )
    calls = [
        [entry.clone() for entry in entries(subject, world, t[world.rank].clone())] for t in (first, second, third)
    ]
    for actual, tensors, name in zip(calls, (first, second, third), ("first", "second", "third"), strict=True):
        expect_entries(world, actual, tensors, f" in the {name} call")


@clause("AllGatherGradAutograd.forward.meta")
@ranks(1, 2)
@cases(
    dtype=[
        "float16", "bfloat16", "float32", "float64", "complex64", "complex128",
        "uint8", "int8", "int16", "int32", "int64", "bool",
    ]
)  # fmt: skip
def test_every_dtype_is_kept(subject: Subject, world: World, dtype: str) -> None:
    """Entries have the shape, dtype and device of x, for every dtype that the backend carries."""
    kind = getattr(torch, dtype)
    carries(world, kind)
    x = rank_inputs(world, (2, 3), kind)[world.rank].requires_grad_(kind.is_floating_point or kind.is_complex)
    _expect_shape_dtype_and_device(world, entries(subject, world, x), x)


@clause("AllGatherGradAutograd.forward.meta")
@ranks(1, 2, 3)
@cases(shape=[(), (1,), (0,), (3, 0, 2), (1, 1), (2, 1, 3, 1, 2, 1, 2)])
def test_every_shape_is_kept(subject: Subject, world: World, shape: tuple[int, ...]) -> None:
    """Entries have the shape of x: no dimension at all, none with elements, or many."""
    x = rank_inputs(world, shape, torch.float32)[world.rank].requires_grad_()
    _expect_shape_dtype_and_device(world, entries(subject, world, x), x)


def _expect_shape_dtype_and_device(world: World, actual: tuple[torch.Tensor, ...], x: torch.Tensor) -> None:
    for place, entry in enumerate(actual):
        expect.equal(_meta(entry), _meta(x), f"shape, dtype and device of entry {place} on rank {world.rank}")


def _meta(tensor: torch.Tensor) -> str:
    shape = "x".join(map(str, tensor.shape)) or "0-d"
    return f"{shape} {str(tensor.dtype).removeprefix('torch.')} on {tensor.device}"


@clause("AllGatherGradAutograd.forward.any-layout")
@ranks(1, 2, 3)
@cases(
    layout=[
        "transposed", "sliced columns", "sliced rows", "offset", "expanded rows", "expanded from one element",
        "permuted", "channels last", "diagonal",
    ]
)  # fmt: skip
def test_any_layout_is_gathered_in_logical_order(subject: Subject, world: World, layout: str) -> None:
    """A non-contiguous x gives the same result as a contiguous one."""
    x = INPUT_LAYOUTS[layout](rank_inputs(world, (4, 6), torch.float32)[world.rank])
    actual = entries(subject, world, x.detach().requires_grad_())
    expected = entries(subject, world, x.detach().clone(memory_format=torch.contiguous_format).requires_grad_())
    _expect_as_from_contiguous(world, actual, expected, f"for an x that is {layout}")


@clause("AllGatherGradAutograd.forward.any-layout")
@ranks(2, 3)
@cases(contiguous=["first", "last"])
def test_ranks_may_differ_in_layout(subject: Subject, world: World, contiguous: str) -> None:
    """Entries are right if one rank's x is contiguous and that of the others transposed."""
    x = rank_inputs(world, (3, 4), torch.float32)[world.rank].t()
    dense = x.clone(memory_format=torch.contiguous_format)
    odd = 0 if contiguous == "first" else world.size - 1
    actual = entries(subject, world, (dense if world.rank == odd else x).detach().requires_grad_())
    expected = entries(subject, world, dense.detach().requires_grad_())
    _expect_as_from_contiguous(world, actual, expected, f"where x is contiguous on rank {odd} and transposed elsewhere")


def _expect_as_from_contiguous(
    world: World, actual: Sequence[torch.Tensor], expected: Sequence[torch.Tensor], where: str
) -> None:
    for place, (entry, wanted) in enumerate(zip(actual, expected, strict=True)):
        name = f"entry {place} on rank {world.rank} of {world.size} {where}, as gathered from a contiguous x"
        same_bits(entry, wanted, name, entry_mistakes(expected, place))


@clause("AllGatherGradAutograd.forward.own-memory")
@ranks(1, 2, 3)
@cases(requires_grad=[True, False])
def test_entries_share_no_memory(subject: Subject, world: World, requires_grad: bool) -> None:
    """No tensor of the result shares memory with x or with another one."""
    x = rank_inputs(world, (3, 2), torch.float32)[world.rank].clone().requires_grad_(requires_grad)
    result = subject.undivided(x)
    actual = [result] if isinstance(result, torch.Tensor) else list(result)
    memory = {"x": address(x)}
    for place, entry in enumerate(actual):
        shared = [name for name, own in memory.items() if own is not None and own == address(entry)]
        expect.equal(shared, [], f"what entry {place} on rank {world.rank} of {world.size} shares its memory with")
        memory[f"entry {place}"] = address(entry)


@clause("AllGatherGradAutograd.forward.own-memory")
@ranks(1, 2, 3)
def test_a_later_call_leaves_earlier_entries_alone(subject: Subject, world: World) -> None:
    """The entries of an earlier call keep their values and their memory when another call is made."""
    first, second = rank_inputs(world, (3, 2), torch.float32), rank_inputs(world, (3, 2), torch.float32, "second")
    earlier = entries(subject, world, first[world.rank].clone().requires_grad_())
    values = [entry.detach().clone() for entry in earlier]
    later = entries(subject, world, second[world.rank].clone().requires_grad_())
    for place, (entry, value) in enumerate(zip(earlier, values, strict=True)):
        expect.equal(entry, value, f"entry {place} of the earlier call on rank {world.rank}, after a later call")
    addresses = {address(entry) for entry in earlier} - {None}
    shared = [place for place, entry in enumerate(later) if address(entry) in addresses]
    expect.equal(shared, [], f"entries on rank {world.rank} that share memory with the earlier call's")
