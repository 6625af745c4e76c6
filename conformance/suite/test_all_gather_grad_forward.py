"""AllGatherGradAutograd, forward: what every rank gets."""

from __future__ import annotations

import time

import torch

from conformance import expect
from conformance.marks import cases, clause, ranks
from conformance.subject import Subject
from conformance.suite._gathers import LAYOUTS, carries, entries, held, same_entries
from conformance.world import World


@clause("AllGatherGradAutograd.forward.every-rank")
@ranks(1, 2, 3, 4)
def test_result_is_a_tuple_with_an_entry_for_each_rank(subject: Subject, world: World) -> None:
    """With N ranks the result is a tuple of N tensors."""
    outputs = subject(held(world, (2, 3), torch.float32)[world.rank].requires_grad_())
    what = f"the result on rank {world.rank} of {world.size}"
    expect.that(isinstance(outputs, tuple), f"{what} is a tuple", type(outputs).__name__, "tuple")
    expect.equal(len(outputs), world.size, f"{what}: number of entries")
    kinds = [type(output).__name__ for output in outputs if not isinstance(output, torch.Tensor)]
    expect.equal(kinds, [], f"{what}: types of entries that are no tensors")


@clause("AllGatherGradAutograd.forward.every-rank")
@ranks(1, 2, 3, 4)
@cases(requires_grad=[True, False])
def test_entry_s_is_the_tensor_of_rank_s(subject: Subject, world: World, requires_grad: bool) -> None:
    """On every rank, entry s is the tensor of rank s, whether or not a gradient is wanted."""
    tensors = held(world, (3, 2), torch.float64)
    came = entries(subject, world, tensors[world.rank].clone().requires_grad_(requires_grad))
    same_entries(world, came, tensors)


@clause("AllGatherGradAutograd.forward.every-rank")
@ranks(2, 3)
@cases(first=["first", "last"])
def test_order_is_that_of_ranks_not_of_arrival(subject: Subject, world: World, first: str) -> None:
    """Entries stand in the order of ranks, whichever rank comes first and whichever last."""
    tensors = held(world, (4,), torch.float32)
    behind = world.rank if first == "first" else world.size - 1 - world.rank
    time.sleep(0.03 * behind)
    came = entries(subject, world, tensors[world.rank].clone())
    same_entries(world, came, tensors, f" when the {first} rank comes first")


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
    came = entries(subject, world, tensors[world.rank].clone())
    same_entries(world, came, tensors)


@clause("AllGatherGradAutograd.forward.every-rank")
@ranks(2, 3)
def test_many_elements_arrive_whole(subject: Subject, world: World) -> None:
    """A tensor far larger than one message arrives whole."""
    tensors = held(world, (257, 513), torch.float32)
    came = entries(subject, world, tensors[world.rank].clone().requires_grad_())
    same_entries(world, came, tensors)


@clause("AllGatherGradAutograd.forward.every-rank")
@ranks(1, 2, 3)
def test_each_call_gathers_anew(subject: Subject, world: World) -> None:
    """A second call with other values gives these, and a third with another shape gives that."""
    first, second, third = (
        held(world, (4,), torch.float32),
        held(world, (4,), torch.float32, 2),
        held(world, (2, 3), torch.float32),
    )
    calls = [
        [entry.clone() for entry in entries(subject, world, t[world.rank].clone())] for t in (first, second, third)
    ]
    for came, tensors, name in zip(calls, (first, second, third), ("first", "second", "third"), strict=True):
        same_entries(world, came, tensors, f" in the {name} call")


@clause("AllGatherGradAutograd.forward.meta")
@ranks(1, 2)
@cases(
    dtype=[
        "float16", "bfloat16", "float32", "float64", "complex64", "complex128",
        "uint8", "int8", "int16", "int32", "int64", "bool",
    ]
)  # fmt: skip
def test_every_dtype_is_kept(subject: Subject, world: World, dtype: str) -> None:
    """Entries have the dtype and device of x, with its values, for every dtype that the backend carries."""
    kind = getattr(torch, dtype)
    carries(world, kind)
    tensors = held(world, (2, 3), kind)
    can_have_gradient = kind.is_floating_point or kind.is_complex
    came = entries(subject, world, tensors[world.rank].clone().requires_grad_(can_have_gradient))
    same_entries(world, came, tensors)


@clause("AllGatherGradAutograd.forward.meta")
@ranks(1, 2, 3)
@cases(shape=[(), (1,), (0,), (3, 0, 2), (1, 1), (2, 1, 3, 1, 2, 1, 2)])
def test_every_shape_is_kept(subject: Subject, world: World, shape: tuple[int, ...]) -> None:
    """Entries have the shape of x: no dimension at all, none with elements, or many."""
    tensors = held(world, shape, torch.float32)
    came = entries(subject, world, tensors[world.rank].clone().requires_grad_())
    same_entries(world, came, tensors)


@clause("AllGatherGradAutograd.forward.any-layout")
@ranks(1, 2, 3)
@cases(
    layout=[
        "transposed", "sliced columns", "sliced rows", "offset", "expanded rows", "expanded from one element",
        "permuted", "channels last", "diagonal",
    ]
)  # fmt: skip
def test_any_layout_is_gathered_in_logical_order(subject: Subject, world: World, layout: str) -> None:
    """An x that is not contiguous is gathered as its elements read, whatever their order in memory."""
    tensors = [LAYOUTS[layout](base) for base in held(world, (4, 6), torch.float32)]
    came = entries(subject, world, tensors[world.rank].detach().requires_grad_())
    same_entries(world, came, tensors, f" where x is laid out {layout}")


@clause("AllGatherGradAutograd.forward.any-layout")
@ranks(2, 3)
@cases(contiguous=["first", "last"])
def test_ranks_may_differ_in_layout(subject: Subject, world: World, contiguous: str) -> None:
    """Entries are right where one rank's x is contiguous and that of the others transposed."""
    tensors = [base.t() for base in held(world, (3, 4), torch.float32)]
    odd = 0 if contiguous == "first" else world.size - 1
    mine = tensors[world.rank].contiguous() if world.rank == odd else tensors[world.rank]
    came = entries(subject, world, mine.detach().requires_grad_())
    same_entries(world, came, tensors, f" where x is contiguous on rank {odd} and transposed elsewhere")


@clause("AllGatherGradAutograd.forward.own-memory")
@ranks(1, 2, 3)
@cases(requires_grad=[True, False])
def test_entries_share_no_memory(subject: Subject, world: World, requires_grad: bool) -> None:
    """No entry shares memory with x or with another entry."""
    x = held(world, (3, 2), torch.float32)[world.rank].clone().requires_grad_(requires_grad)
    came = entries(subject, world, x)
    memory = {"x": _memory(x)}
    for place, entry in enumerate(came):
        shared = [name for name, address in memory.items() if address == _memory(entry)]
        expect.equal(shared, [], f"what entry {place} on rank {world.rank} of {world.size} shares its memory with")
        memory[f"entry {place}"] = _memory(entry)


@clause("AllGatherGradAutograd.forward.own-memory")
@ranks(1, 2, 3)
def test_a_later_call_leaves_earlier_entries_alone(subject: Subject, world: World) -> None:
    """The entries of an earlier call keep their values and their memory when another call is made."""
    first, second = held(world, (3, 2), torch.float32), held(world, (3, 2), torch.float32, "second")
    earlier = entries(subject, world, first[world.rank].clone().requires_grad_())
    later = entries(subject, world, second[world.rank].clone().requires_grad_())
    same_entries(world, earlier, first, " of the earlier call, after a later one")
    addresses = {_memory(entry) for entry in earlier}
    shared = [place for place, entry in enumerate(later) if _memory(entry) in addresses]
    expect.equal(shared, [], f"entries on rank {world.rank} that share memory with the earlier call's")


def _memory(tensor: torch.Tensor) -> int:
    return int(tensor.untyped_storage().data_ptr())
