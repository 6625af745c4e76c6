"""neuraloperator: the mappings of its model parallelism, whose group is a global."""

from __future__ import annotations

from published.collectives import ROWS, collective, in_global
from published.packages import bare, enter

bare(enter("neuraloperator"), "neuralop.mpu")
_grouped = in_global("neuralop.mpu.comm", "_MODEL_PARALLEL_GROUP")

#: "Pass the input to the model parallel region"; backward sums
copy = collective("neuralop.mpu.mappings:_CopyToModelParallelRegion", "I -> R", ROWS, call=_grouped)
#: "All-reduce the input from the model parallel region"
reduce = collective("neuralop.mpu.mappings:_ReduceFromModelParallelRegion", "P -> I", ROWS, call=_grouped)
#: "Split the input and keep only the corresponding chuck to the rank"
scatter = collective("neuralop.mpu.mappings:_ScatterToModelParallelRegion", "I -> V", ROWS, 0, call=_grouped)
#: "Gather the input from model parallel region and concatinate"; backward splits
gather = collective("neuralop.mpu.mappings:_GatherFromModelParallelRegion", "V -> I", ROWS, 0, call=_grouped)
