"""Lightning Fabric: the gather of its 1.9 line, which ``all_gather(..., sync_grads=True)`` used on Windows."""

from __future__ import annotations

from conformance.kit.process_groups import GROUP
from published.collectives import ROWS, collective
from published.packages import absent, bare, enter

bare(enter("lightning-fabric"), "lightning_fabric.utilities")
absent("lightning_utilities.core.imports", module_available=bool)
absent("lightning_fabric.plugins.environments.cluster_environment", ClusterEnvironment=object)
absent("lightning_fabric.utilities.imports", _TORCH_GREATER_EQUAL_1_12=True)
absent("lightning_fabric.utilities.rank_zero", rank_zero_info=print)
absent("lightning_fabric.utilities.types", ReduceOp=object)

#: "sync_grads: Flag that allows users to synchronize gradients for all_gather op"
gather = collective("lightning_fabric.utilities.distributed:_AllGather", "V -> R", ROWS, GROUP)
