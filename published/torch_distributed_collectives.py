"""torch.distributed.nn.functional, but for ``_all_gather_base``, whose backward is for NCCL alone.

Its documentation names no gradients; the types are those of the partner that each backward calls.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist

from conformance.kit.process_groups import GROUP
from published.collectives import ROWS, collective, first_of, parts, received

#: "Broadcasts the tensor to the whole group": only the source's counts, as each may
broadcast = collective(
    "torch.distributed.nn.functional:broadcast",
    "V -> R",
    ROWS,
    GROUP,
    call=lambda function, x, group: function(x, first_of(group), group),
)
#: "Gathers a list of tensors in a single process": the others have zeros
gather = collective(
    "torch.distributed.nn.functional:gather",
    "V -> V",
    ROWS,
    GROUP,
    call=lambda function, x, group: function(x, first_of(group), group),
)
#: "Scatters a list of tensors to all processes in a group": only the source's count
scatter = collective(
    "torch.distributed.nn.functional:scatter",
    "V -> V",
    ROWS,
    GROUP,
    call=lambda function, x, group: function(parts(x, group), first_of(group), group),
)
#: "Only the process with rank dst is going to receive the final result"
reduce = collective(
    "torch.distributed.nn.functional:reduce",
    "P -> V",
    ROWS,
    GROUP,
    call=lambda function, x, group: _kept_by_first(function(x, first_of(group), group=group), group),
)
#: "Reduces, then scatters a list of tensors to all processes in a group"
reduce_scatter = collective(
    "torch.distributed.nn.functional:reduce_scatter",
    "P -> V",
    ROWS,
    GROUP,
    call=lambda function, x, group: function(received(x, group)[0], parts(x, group), group=group),
)
#: "Gathers tensors from the whole group in a list"
all_gather = collective("torch.distributed.nn.functional:all_gather", "V -> R", ROWS, GROUP)
#: "Each process scatters list of input tensors to all processes in a group"
all_to_all = collective(
    "torch.distributed.nn.functional:all_to_all",
    "V -> V",
    ROWS,
    GROUP,
    call=lambda function, x, group: function(received(x, group), parts(x, group), group),
)
#: "Each process splits input tensor and then scatters the split list to all processes"
all_to_all_single = collective(
    "torch.distributed.nn.functional:all_to_all_single",
    "V -> V",
    ROWS,
    GROUP,
    call=lambda function, x, group: function(x.new_empty(x.shape), x, group=group),
)
#: "the returned tensor is going to be bitwise identical in all processes"; backward all-reduces
all_reduce = collective(
    "torch.distributed.nn.functional:all_reduce",
    "P -> R",
    ROWS,
    GROUP,
    call=lambda function, x, group: function(x, group=group),
)


def _kept_by_first(total: torch.Tensor, group: Any) -> torch.Tensor:
    """What the other ranks get is not said to be anything."""
    return total if dist.get_rank(group) == 0 else total * 0
