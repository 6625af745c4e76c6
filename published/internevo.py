"""InternEvo: the all-to-all of its mixtures of experts."""

from __future__ import annotations

from conformance.kit.process_groups import GROUP
from published.collectives import ROWS, collective, first_result
from published.packages import bare, enter

bare(enter("internevo"), "internlm.model.moe")

#: "All to all communication"; backward is one as well
all_to_all = collective("internlm.model.moe.utils:AllToAll", "V -> V", ROWS, None, None, GROUP, call=first_result)
