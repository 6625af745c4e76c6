"""lightly 1.5.2: a gather whose backward takes this rank's gradient alone; 1.6 changed that."""

from __future__ import annotations

from conformance.kit.subject import Subject
from published.gathers import without_args
from published.packages import bare, enter

bare(enter("lightly-before"), "lightly.utils")

gather = Subject("lightly.utils.dist:GatherLayer", spec="AllGatherGradAutograd")
gather_as_slice = Subject("lightly.utils.dist:GatherLayer", spec="AllGather", result="tuple", call=without_args)
