"""diffdist: communication primitives that autograd can go through."""

from __future__ import annotations

import torch.distributed as dist

from conformance.kit.process_groups import GROUP
from published.collectives import ROWS, collective, first_of, parts, received
from published.packages import enter

enter("diffdist")

#: broadcast in forward, and a sum to the source in backward
broadcast = collective(
    "diffdist.functional:broadcast", "V -> R", ROWS, GROUP,
    call=lambda function, x, group: function(x, first_of(group), group, inplace=False),
)  # fmt: skip
#: backward reduce-scatters
all_gather = collective(
    "diffdist.functional:all_gather", "V -> R", ROWS, GROUP,
    call=lambda function, x, group: function(
        [x.new_empty(x.shape) for _ in range(dist.get_world_size(group))], x, group, inplace=False
    ),
)  # fmt: skip
#: a part for each rank from the source, and a gather to it in backward
scatter = collective(
    "diffdist.functional:scatter", "V -> V", ROWS, GROUP,
    call=lambda function, x, group: function(
        received(x, group)[0], parts(x, group), first_of(group), group, inplace=False
    ),
)  # fmt: skip
