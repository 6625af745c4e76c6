"""SwissArmyTransformer: the mappings of its model parallelism, along the last dimension; their group is a global."""

from __future__ import annotations

from published.collectives import COLUMNS, ROWS, collective, in_global
from published.packages import bare, enter

bare(enter("swissarmytransformer"), "sat.mpu")
_grouped = in_global("sat.mpu.initialize", "_MODEL_PARALLEL_GROUP")

#: "Pass the input to the model parallel region"; backward sums
copy = collective("sat.mpu.mappings:_CopyToModelParallelRegion", "I -> R", ROWS, call=_grouped)
#: "All-redcue the input from the model parallel region"
reduce = collective("sat.mpu.mappings:_ReduceFromModelParallelRegion", "P -> I", ROWS, call=_grouped)
#: "Split the input and keep only the corresponding chuck to the rank"
scatter = collective("sat.mpu.mappings:_ScatterToModelParallelRegion", "I -> V", COLUMNS, call=_grouped)
#: "Gather the input from model parallel region and concatinate"; backward splits
gather = collective("sat.mpu.mappings:_GatherFromModelParallelRegion", "V -> I", COLUMNS, call=_grouped)
