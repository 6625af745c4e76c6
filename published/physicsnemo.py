"""PhysicsNeMo: mappings that take the name of a group from its manager, and primitives for parts of unequal size."""

from __future__ import annotations

import importlib
from typing import Any

import torch.distributed as dist

from conformance.kit.process_groups import GROUP
from conformance.kit.specs import apply
from published.collectives import ROWS, collective
from published.packages import absent, bare, enter

_folder = enter("nvidia-physicsnemo")
for _parent in ("physicsnemo.core", "physicsnemo.distributed"):
    bare(_folder, _parent)
absent("treelib", Tree=None)


def _managed(function: Any, *args: Any) -> Any:
    """Call it with the default group: its manager keeps how large that is, and which rank this one has in it."""
    manager = importlib.import_module("physicsnemo.distributed.manager").DistributedManager
    manager._shared_state.update(_is_initialized=True, _world_size=dist.get_world_size(), _rank=dist.get_rank())
    return apply(function, *args)


def _gathered(function: Any, x: Any) -> Any:
    return _managed(function, x, 0, [len(x)] * dist.get_world_size(), None)


#: "Pass the input to the parallel region"; backward sums
copy = collective("physicsnemo.distributed.mappings:_CopyToParallelRegion", "I -> R", ROWS, None, call=_managed)
#: "All-reduce the input from the parallel region"
reduce = collective("physicsnemo.distributed.mappings:_ReduceFromParallelRegion", "P -> I", ROWS, None, call=_managed)
#: "Split the input and keep only the chunk corresponding to the rank"
scatter = collective(
    "physicsnemo.distributed.mappings:_ScatterToParallelRegion", "I -> V", ROWS, 0, None, call=_managed
)
#: "Gather the input from parallel region and concatenate"; backward splits
gather = collective("physicsnemo.distributed.mappings:_GatherFromParallelRegion", "V -> I", ROWS, call=_gathered)


#: "gathers all local tensors from each rank into the full global tensor onto each rank"; backward "sums up"
all_gather = collective(
    "physicsnemo.distributed.autograd:AllGatherVAutograd", "V -> R", ROWS, GROUP,
    call=lambda function, x, group: apply(function, x, [len(x)] * dist.get_world_size(group), 0, True, group),
)  # fmt: skip
