"""st-moe-pytorch: a gather of tensors whose sizes may differ; backward takes this rank's slice."""

from __future__ import annotations

from conformance.kit.subject import Subject
from published.gathers import of_variable_size
from published.packages import absent, bare, enter

bare(enter("st-moe-pytorch"), "st_moe_pytorch")
absent("einops", rearrange=None, pack=None, unpack=None)

gather = Subject("st_moe_pytorch.distributed:AllGatherFunction", spec="AllGather", call=of_variable_size)
