"""torchgpipe: copies between streams, and dependencies that carry no numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from conformance.kit.inputs import drawn
from conformance.kit.specs import random
from conformance.kit.subject import Subject
from published.packages import bare, enter

bare(enter("torchgpipe"), "torchgpipe")


def _streams() -> Iterator[tuple[Any, ...]]:
    from torchgpipe.stream import CPUStream

    yield CPUStream, CPUStream, random((3,), 1), random((2,), 2)


_PHONY = [(random((4, 3), 1), torch.empty(0))]

copy = Subject("torchgpipe.copy:Copy", inputs=_streams)
wait = Subject("torchgpipe.copy:Wait", inputs=_streams)
fork = Subject("torchgpipe.dependency:Fork", inputs=drawn((4, 3)))
join = Subject("torchgpipe.dependency:Join", inputs=_PHONY)
