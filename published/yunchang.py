"""yunchang: the all-to-all of Ulysses, for queries, keys and values."""

from __future__ import annotations

from conformance.kit.process_groups import GROUP
from published.collectives import HEADS, collective
from published.packages import bare, enter

bare(enter("yunchang"), "yunchang.comm")

#: "all-to-all for QKV": from parts of the sequence to parts of the heads; backward goes the other way
all_to_all = collective("yunchang.comm.all_to_all:SeqAllToAll4D", "V -> V", GROUP, HEADS, 2, 1)
all_to_all_back = collective("yunchang.comm.all_to_all:SeqAllToAll4D", "V -> V", GROUP, HEADS, 1, 2)
