"""axolotl-ringmaster: what context parallelism sends."""

from __future__ import annotations

from conformance.kit.process_groups import GROUP
from published.collectives import COLUMNS, HEADS, ROWS, collective
from published.packages import bare, enter

bare(enter("axolotl-ringmaster"), "ringmaster")

#: "backward SUMs the gathered grads back to each owner"
gather_summing = collective("ringmaster.cp_collectives:AllGatherCP", "V -> R", ROWS, GROUP)
#: "backward just slices out this rank's chunk -- no cross-rank sum"
gather = collective("ringmaster.cp_collectives:SeqGatherCP", "V -> I", COLUMNS, GROUP)
#: "its backward is the same all-to-all with scatter/gather swapped"
all_to_all = collective("ringmaster.comm:SeqAllToAll4D", "V -> V", GROUP, HEADS, 1, 2)
