"""torch.distributed.nn: collectives that are differentiable, each put to use as a gather that sums."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist

from conformance.kit.subject import Subject
from published.gathers import bound

all_gather = Subject("torch.distributed.nn.functional:all_gather", spec="AllGatherGradAutograd")
all_gather_class = Subject(
    "torch.distributed.nn.functional:_AllGather",
    spec="AllGatherGradAutograd",
    call=bound(lambda x: (dist.group.WORLD, x)),
)


def _sent_to_all(function: Any, x: torch.Tensor) -> Any:
    size = dist.get_world_size()
    return function([x.new_empty(x.shape) for _ in range(size)], [x] * size)


all_to_all = Subject("torch.distributed.nn.functional:all_to_all", spec="AllGatherGradAutograd", call=_sent_to_all)
