"""FairScale: the gather of model parallelism, along the last dimension."""

from __future__ import annotations

import importlib
from typing import Any

import torch
import torch.distributed as dist

from conformance.kit.subject import Subject
from published.packages import enter

enter("fairscale")


def _along_the_first(function: Any, x: torch.Tensor, args: Any) -> torch.Tensor:
    """Give it the group it takes from a global, and turn its last dimension into the first."""
    if args.world_size == 1:
        return x.clone()
    initialize = importlib.import_module("fairscale.nn.model_parallel.initialize")
    vars(initialize)["_MODEL_PARALLEL_GROUP"] = dist.group.WORLD
    return function.apply(x.movedim(0, -1).contiguous()).movedim(-1, 0)


gather = Subject(
    "fairscale.nn.model_parallel.mappings:_GatherFromModelParallelRegion",
    spec="AllGather",
    call=_along_the_first,
)
