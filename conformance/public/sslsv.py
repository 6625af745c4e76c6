"""sslsv: a gather that sums."""

from __future__ import annotations

from conformance.public.packages import bare, enter
from conformance.subject import Subject

bare(enter("sslsv"), "sslsv.utils")

gather = Subject("sslsv.utils.distributed:GatherLayer", spec="AllGatherGradAutograd")
