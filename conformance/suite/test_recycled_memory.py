"""A call with new tensors in the reused memory of an earlier call's, as allocators do."""

from __future__ import annotations

import sys

import torch

from conformance.kit import Probe, SampleCall, World, clause, expect, is_strided, need
from conformance.kit.sample_calls import copied, names
from conformance.kit.tensors import with_attributes
from conformance.kit.variations.meaning import meant

CACHED_BY_ADDRESS = "a value is cached by the tensor's address, which another tensor gets after the first one is freed"
WORKS_IN_PLACE = "it works in place"


@clause("Function.forward.calls-independent")
def test_new_tensors_in_recycled_memory_are_read(probe: Probe) -> None:
    """Called with new tensors at the addresses of earlier ones, it gives the same as for tensors elsewhere."""
    sample, world = probe.sample, probe.world
    need(world.device == "cpu", "only memory of the CPU is reused")
    is_plain = all(_is_plain(sample.values[at]) for at in sample.active)
    need(all(world.exchange(is_plain)), "on some rank its tensors are not in plain memory")
    need(not probe.draws, "it draws random numbers")
    numbers = {at: sample.values[at].detach() * 0.75 for at in sample.active}
    moved = probe.unless_refused("it accepts no other numbers", meant, sample, numbers)
    plain = copied(sample.run(), world)
    blocks = {at: bytearray(sample.values[at].nbytes) for at in sample.active}
    before = list(map(sys.getrefcount, blocks.values()))
    first = probe.unless_refused(WORKS_IN_PLACE, _in_blocks, sample, blocks, world)
    same = all(map(expect.alike, first, plain))
    gone = list(map(sys.getrefcount, blocks.values())) == before
    need(all(world.exchange(same)), "its results differ in another layout, or for leaves")
    need(all(world.exchange(gone)), "it keeps its arguments alive, so their memory is not reused")
    again = probe.unless_refused(WORKS_IN_PLACE, _in_blocks, moved, blocks, world)
    run = moved.run()
    for name, actual, right in zip(names(run), again, copied(run, world), strict=True):
        expect.close(actual, right, f"{name} of {sample.label}, in reused memory", likely=CACHED_BY_ADDRESS)


def _is_plain(value: torch.Tensor) -> bool:
    return type(value) in {torch.Tensor, torch.nn.Parameter} and is_strided(value) and value.numel() > 0


def _in_blocks(sample: SampleCall, blocks: dict[int, bytearray], world: World) -> list[torch.Tensor]:
    """Results and gradients of a call whose active tensors lie in these blocks of memory; none of them is left."""
    leaves = {at: _tensor_in(block, sample.values[at]) for at, block in blocks.items()}
    values = [leaves.get(at, value) for at, value in enumerate(sample.plain)]
    return copied(sample.called_with(values, leaves), world)


def _tensor_in(block: bytearray, value: torch.Tensor) -> torch.Tensor:
    torch.frombuffer(block, dtype=value.dtype).copy_(value.detach().reshape(-1))
    # No view, and of version 0.
    tensor = torch.frombuffer(block, dtype=value.dtype).reshape(value.shape).data
    return with_attributes(tensor, value).requires_grad_()
