"""FairScale: the gather of model parallelism, along the last dimension."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist

from conformance.public.packages import enter
from conformance.subject import Subject

enter("fairscale")


def _along_the_first(function: Any, x: torch.Tensor, args: Any) -> torch.Tensor:
    """Give it the group it takes from a global, and turn its last dimension into the first."""
    if args.world_size == 1:
        return x.clone()
    from fairscale.nn.model_parallel import initialize

    initialize._MODEL_PARALLEL_GROUP = dist.group.WORLD
    return function.apply(x.movedim(0, -1)).movedim(-1, 0)  # type: ignore[no-any-return]


gather = Subject(
    "fairscale.nn.model_parallel.mappings:_GatherFromModelParallelRegion",
    spec="AllGather",
    call=_along_the_first,
)
