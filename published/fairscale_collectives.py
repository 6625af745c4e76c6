"""FairScale: the mappings of its model parallelism, along the last dimension, and the all-to-all of its experts."""

from __future__ import annotations

from conformance.kit.process_groups import GROUP
from published.collectives import COLUMNS, ROWS, collective, in_global
from published.packages import enter

enter("fairscale")
_grouped = in_global("fairscale.nn.model_parallel.initialize", "_MODEL_PARALLEL_GROUP")

#: "Pass the input to the model parallel region"; backward sums
copy = collective("fairscale.nn.model_parallel.mappings:_CopyToModelParallelRegion", "I -> R", ROWS, call=_grouped)
#: "All-redcue the input from the model parallel region"
reduce = collective(
    "fairscale.nn.model_parallel.mappings:_ReduceFromModelParallelRegion", "P -> I", ROWS, call=_grouped
)
#: "Split the input and keep only the corresponding chuck to the rank"
scatter = collective(
    "fairscale.nn.model_parallel.mappings:_ScatterToModelParallelRegion", "I -> V", COLUMNS, call=_grouped
)
#: "Gather the input from model parallel region and concatinate"; backward splits
gather = collective(
    "fairscale.nn.model_parallel.mappings:_GatherFromModelParallelRegion", "V -> I", COLUMNS, call=_grouped
)
#: what each expert's rank is sent; backward is an all-to-all
all_to_all = collective("fairscale.nn.moe.moe_layer:_AllToAll", "V -> V", GROUP, ROWS)
