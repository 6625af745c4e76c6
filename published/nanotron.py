"""nanotron: the primitives of its tensor parallelism."""

from __future__ import annotations

from conformance.kit.process_groups import GROUP
from published.collectives import ROWS, collective
from published.packages import absent, bare, enter

_folder = enter("nanotron")
bare(_folder, "nanotron.parallel.tensor_parallel")
absent("nanotron.utils", find_free_port=None)

#: "All-reduce gradients in a differentiable fashion"
copy = collective(
    "nanotron.parallel.tensor_parallel.distributed_differentiable_primitives:DifferentiableIdentity",
    "I -> R", ROWS, GROUP,
)  # fmt: skip
#: "All-reduce in a differentiable fashion"; backward is the identity
reduce = collective(
    "nanotron.parallel.tensor_parallel.distributed_differentiable_primitives:DifferentiableAllReduceSum",
    "P -> I", ROWS, GROUP,
)  # fmt: skip
#: "All gather in a differentiable fashion"; backward reduce-scatters
gather = collective(
    "nanotron.parallel.tensor_parallel.distributed_differentiable_primitives:DifferentiableAllGather",
    "V -> R", ROWS, GROUP,
)  # fmt: skip
#: "Reduce scatter in a differentiable fashion"; backward gathers
reduce_scatter = collective(
    "nanotron.parallel.tensor_parallel.distributed_differentiable_primitives:DifferentiableReduceScatterSum",
    "P -> V", ROWS, GROUP,
)  # fmt: skip
