"""The ten mappings of Megatron-LM's core, for tensor and sequence parallelism, typed by their wrappers' docstrings."""

from __future__ import annotations

import published.megatron  # noqa: F401  its folder is on the path then, and the CPU stands in for CUDA
from conformance.kit.process_groups import GROUP
from published.collectives import COLUMNS, ROWS, collective

#: "forward: copy, backward allreduce"
copy = collective("megatron.core.tensor_parallel.mappings:_CopyToModelParallelRegion", "I -> R", ROWS, GROUP)
#: "forward: all reduce, backward copy"
reduce = collective("megatron.core.tensor_parallel.mappings:_ReduceFromModelParallelRegion", "P -> I", ROWS, GROUP)
#: "Split the input and keep only the corresponding chuck"; "backward: AG <last dim>"
scatter_columns = collective(
    "megatron.core.tensor_parallel.mappings:_ScatterToModelParallelRegion", "I -> V", COLUMNS, GROUP
)
#: "forward: AG, backward: split <last dim>"
gather_columns = collective(
    "megatron.core.tensor_parallel.mappings:_GatherFromModelParallelRegion", "V -> I", COLUMNS, GROUP
)
#: "forward: split, backward: AG"
scatter_rows = collective(
    "megatron.core.tensor_parallel.mappings:_ScatterToSequenceParallelRegion", "I -> V", ROWS, GROUP
)
#: "forward: AG, backward: RS <first dim>"
gather_rows = collective(
    "megatron.core.tensor_parallel.mappings:_GatherFromSequenceParallelRegion", "V -> R", ROWS, GROUP
)
#: with tensor_parallel_output_grad=False its backward splits
gather_rows_alike = collective(
    "megatron.core.tensor_parallel.mappings:_GatherFromSequenceParallelRegion", "V -> I", ROWS, GROUP, False
)
#: "forward: RS, backward AG"
reduce_scatter_rows = collective(
    "megatron.core.tensor_parallel.mappings:_ReduceScatterToSequenceParallelRegion", "P -> V", ROWS, GROUP
)
#: "forward: AG, backward RS <last dim>"
all_gather_columns = collective(
    "megatron.core.tensor_parallel.mappings:_AllGatherFromTensorParallelRegion", "V -> R", COLUMNS, GROUP
)
#: "forward: RS, backward AG: AG <last dim>"
reduce_scatter_columns = collective(
    "megatron.core.tensor_parallel.mappings:_ReduceScatterToTensorParallelRegion", "P -> V", COLUMNS, GROUP
)
#: an all-to-all, whose backward is one the other way round
all_to_all = collective("megatron.core.tensor_parallel.mappings:_AllToAll", "V -> V", GROUP, ROWS, None, None)
