"""performer-pytorch: reversible blocks."""

from __future__ import annotations

from conformance.kit.subject import Subject
from published.packages import bare, enter
from published.reversible import blocks

bare(enter("performer-pytorch"), "performer_pytorch")

reversible = Subject(
    "performer_pytorch.reversible:_ReversibleFunction", inputs=blocks("performer_pytorch.reversible", [{}, {}])
)
