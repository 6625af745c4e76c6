"""torch.distributed._functional_collectives: those that are differentiable, by torch.library.register_autograd."""

from __future__ import annotations

from conformance.kit.process_groups import GROUP
from published.collectives import ROWS, collective

#: "Forward gathers tensors from all ranks, backward scatters gradients back with sum reduction"
all_gather = collective(
    "torch.distributed._functional_collectives:all_gather_single_autograd", "V -> R", ROWS, 0, GROUP
)
#: the same, under its older name
all_gather_tensor = collective(
    "torch.distributed._functional_collectives:all_gather_tensor_autograd", "V -> R", ROWS, 0, GROUP
)
#: "Reduces the tensor data across all machines [...], then scatter the results"; backward gathers
reduce_scatter = collective(
    "torch.distributed._functional_collectives:reduce_scatter_single_autograd", "P -> V", ROWS, "sum", 0, GROUP
)
#: the same, under its older name
reduce_scatter_tensor = collective(
    "torch.distributed._functional_collectives:reduce_scatter_tensor_autograd", "P -> V", ROWS, "sum", 0, GROUP
)
#: "Same as all_to_all_single but supports autograd"
all_to_all = collective(
    "torch.distributed._functional_collectives:all_to_all_single_autograd", "V -> V", ROWS, None, None, GROUP
)
#: "Forward aggregates tensors, backward aggregates gradients"
all_reduce = collective("torch.distributed._functional_collectives:all_reduce", "P -> R", ROWS, "sum", GROUP)
