"""VISSL: a gather that sums. What it takes from classy_vision is not called here."""

from __future__ import annotations

from conformance.kit.subject import Subject
from published.packages import absent, bare, enter

bare(enter("vissl"), "vissl.utils")
absent(
    "classy_vision.generic.distributed_util",
    convert_to_distributed_tensor=None,
    convert_to_normal_tensor=None,
    is_distributed_training_run=None,
)

gather = Subject("vissl.utils.distributed_utils:GatherLayer", spec="AllGatherGradAutograd")
