"""reformer-pytorch: reversible blocks."""

from __future__ import annotations

from conformance.kit.subject import Subject
from published.packages import bare, enter
from published.reversible import blocks

bare(enter("reformer-pytorch"), "reformer_pytorch")

reversible = Subject(
    "reformer_pytorch.reversible:_ReversibleFunction", inputs=blocks("reformer_pytorch.reversible", {})
)
