"""solo-learn: a gather whose backward takes the gradient of this rank alone."""

from __future__ import annotations

from conformance.kit.subject import Subject
from published.gathers import without_args
from published.packages import bare, enter

bare(enter("solo-learn"), "solo.utils")

gather = Subject("solo.utils.misc:GatherLayer", spec="AllGatherGradAutograd")
gather_as_slice = Subject("solo.utils.misc:GatherLayer", spec="AllGather", result="tuple", call=without_args)
