"""sslsv: a gather that sums."""

from __future__ import annotations

from conformance.kit.subject import Subject
from published.packages import bare, enter

bare(enter("sslsv"), "sslsv.utils")

gather = Subject("sslsv.utils.distributed:GatherLayer", spec="AllGatherGradAutograd")
