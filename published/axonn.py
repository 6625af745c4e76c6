"""AxoNN: what its tensor parallelism sends, within a layer."""

from __future__ import annotations

import torch

from conformance.kit.process_groups import GROUP
from published.collectives import ROWS, collective
from published.packages import absent, bare, enter

bare(enter("axonn"), "axonn.intra_layer")
# It waits for communication that overlaps, which nobody asks for here, on a CUDA stream.
absent("axonn.axonn")
torch.cuda.current_device = lambda: torch.device("cpu")

#: sums in forward; backward is the identity
reduce = collective("axonn.intra_layer.communication:ForwardAllReduce", "P -> I", ROWS, GROUP)
#: sums in backward; forward is the identity
copy = collective("axonn.intra_layer.communication:BackwardAllReduce", "I -> R", ROWS, GROUP)
#: "Divide a tensor among the tensor parallel ranks"; backward gathers
scatter = collective("axonn.intra_layer.communication:Drop", "I -> V", ROWS, GROUP, 0)
#: "Gather tensors and concatenate them along a dimension"; backward drops
gather = collective("axonn.intra_layer.communication:Gather", "V -> I", ROWS, GROUP, 0)
#: as its name says
gather_summing = collective(
    "axonn.intra_layer.communication:ForwardGather_BackwardReduceScatter", "V -> R", ROWS, GROUP
)
