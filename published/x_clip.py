"""x-clip: a gather of tensors whose sizes may differ; backward takes this rank's slice."""

from __future__ import annotations

from conformance.kit.subject import Subject
from published.gathers import of_variable_size
from published.packages import absent, bare, enter

bare(enter("x-clip"), "x_clip")
absent("einops", rearrange=None)

gather = Subject("x_clip.distributed:AllGather", spec="AllGather", call=of_variable_size)
