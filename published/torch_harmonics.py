"""torch-harmonics: what its distributed transforms send; both groups, of latitudes and longitudes, are globals."""

from __future__ import annotations

from typing import Any

import torch.distributed as dist

from published.collectives import ROWS, collective, in_global
from published.packages import bare, enter

bare(enter("torch-harmonics"), "torch_harmonics.distributed")
_polar = in_global("torch_harmonics.distributed.utils", "_POLAR_PARALLEL_GROUP")
_azimuth = in_global("torch_harmonics.distributed.utils", "_AZIMUTH_PARALLEL_GROUP")


def _sizes(function: Any, x: Any, dim: Any) -> Any:
    return _polar(function, x, dim, [len(x)] * dist.get_world_size())


#: "Identity in the forward pass; all-reduce across polar ranks in the backward pass"
copy_polar = collective("torch_harmonics.distributed.primitives:_CopyToPolarRegion", "I -> R", ROWS, call=_polar)
copy_azimuth = collective("torch_harmonics.distributed.primitives:_CopyToAzimuthRegion", "I -> R", ROWS, call=_azimuth)
reduce_polar = collective("torch_harmonics.distributed.primitives:_ReduceFromPolarRegion", "P -> I", ROWS, call=_polar)
reduce_azimuth = collective(
    "torch_harmonics.distributed.primitives:_ReduceFromAzimuthRegion", "P -> I", ROWS, call=_azimuth
)
scatter_polar = collective(
    "torch_harmonics.distributed.primitives:_ScatterToPolarRegion", "I -> V", ROWS, 0, call=_polar
)
gather_polar = collective(
    "torch_harmonics.distributed.primitives:_GatherFromPolarRegion", "V -> I", ROWS, 0, call=_sizes
)
reduce_scatter_polar = collective(
    "torch_harmonics.distributed.primitives:_ReduceFromScatterToPolarRegion", "P -> V", ROWS, 0, call=_polar
)
#: "forward sums partial values across azimuth ranks and scatters along dim_; backward is all_gather"
reduce_scatter_azimuth = collective(
    "torch_harmonics.distributed.primitives:_ReduceFromScatterToAzimuthRegion", "P -> V", ROWS, 0, call=_azimuth
)
gather_summing_polar = collective(
    "torch_harmonics.distributed.primitives:_GatherFromCopyToPolarRegion", "V -> R", ROWS, 0, call=_sizes
)
