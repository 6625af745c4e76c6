"""Flash linear attention: rows taken out of a padded batch, and put back."""

from __future__ import annotations

import torch

from conformance.kit.inputs import drawn
from conformance.kit.subject import Subject
from published.packages import absent, bare, enter

bare(enter("flash-linear-attention"), "fla.layers")
absent(
    "fla.ops.utils.index",
    prepare_cu_seqlens_from_lens=None,
    prepare_cu_seqlens_from_mask=None,
    prepare_lens_from_mask=None,
)
absent("fla.utils", tensor_cache=lambda function: function)

twice = torch.tensor([0, 2, 5, 2])
once = torch.tensor([0, 2, 5, 3])

index_first_axis = Subject("fla.layers.utils:IndexFirstAxis", inputs=drawn((6, 2, 3), twice))
index_put_first_axis = Subject("fla.layers.utils:IndexPutFirstAxis", inputs=drawn((4, 2, 3), once, 6))
