"""ring-attention-pytorch: a gather of sequences that may differ in length."""

from __future__ import annotations

from published.collectives import ROWS, collective, first_result
from published.packages import absent, bare, enter

bare(enter("ring-attention-pytorch"), "ring_attention_pytorch")
absent("einops", rearrange=None)

#: its backward gives each rank its part of the gradient
gather = collective("ring_attention_pytorch.distributed:AllGatherFunction", "V -> I", ROWS, 0, None, call=first_result)
