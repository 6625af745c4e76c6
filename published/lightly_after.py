"""lightly 1.6: the gather sums over ranks."""

from __future__ import annotations

from conformance.kit.subject import Subject
from published.packages import bare, enter

bare(enter("lightly"), "lightly.utils")

gather = Subject("lightly.utils.dist:GatherLayer", spec="AllGatherGradAutograd")
