"""DALLE-pytorch: reversible blocks, whose inputs are computed anew in backward."""

from __future__ import annotations

from conformance.kit.subject import Subject
from published.packages import bare, enter
from published.reversible import blocks

bare(enter("dalle-pytorch"), "dalle_pytorch")

reversible = Subject(
    "dalle_pytorch.reversible:_ReversibleFunction", inputs=blocks("dalle_pytorch.reversible", [{}, {}])
)
reversible_eval = Subject(
    "dalle_pytorch.reversible:_ReversibleFunction",
    inputs=blocks("dalle_pytorch.reversible", [{}, {}], training=False),
)
