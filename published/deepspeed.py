"""DeepSpeed: the all-to-alls of Ulysses and of its mixtures of experts. Its own ``comm`` wants to be set up."""

from __future__ import annotations

import torch.distributed as dist

from conformance.kit.process_groups import GROUP
from published.collectives import HEADS, ROWS, collective
from published.packages import absent, bare, enter

_folder = enter("deepspeed")
for _parent in ("deepspeed.sequence", "deepspeed.moe"):
    bare(_folder, _parent)
absent("einops", rearrange=None)
absent("deepspeed.comm", **{name: member for name, member in vars(dist).items() if not name.startswith("_")})
absent("deepspeed.comm.pg_utils")
absent("deepspeed.accelerator", get_accelerator=None)
absent("deepspeed.module_inject.tp_shard", AutoTPMeta=None, get_shard_size_list=None)
absent("deepspeed.utils.groups")
absent("deepspeed.utils", groups=None, logger=None)
absent("deepspeed.utils.timer", SynchronizedWallClockTimer=None)
absent("deepspeed.utils.bwc", bwc_tensor_model_parallel_world_size=None)
absent("deepspeed.moe.mappings", drop_tokens=None, gather_tokens=None)

#: from parts of the sequence to parts of the heads; backward goes the other way
all_to_all = collective("deepspeed.sequence.layer:_SeqAllToAll", "V -> V", GROUP, HEADS, 2, 1, 0)
#: what each expert's rank is sent; backward is an all-to-all
experts_all_to_all = collective("deepspeed.moe.sharded_moe:_AllToAll", "V -> V", GROUP, ROWS)
