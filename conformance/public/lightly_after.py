"""lightly 1.6: the gather sums over ranks."""

from __future__ import annotations

from conformance.public.packages import bare, enter
from conformance.subject import Subject

bare(enter("lightly"), "lightly.utils")

gather = Subject("lightly.utils.dist:GatherLayer", spec="AllGatherGradAutograd")
