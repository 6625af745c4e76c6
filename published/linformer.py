"""linformer: reversible blocks."""

from __future__ import annotations

from conformance.kit.subject import Subject
from published.packages import bare, enter
from published.reversible import blocks

bare(enter("linformer"), "linformer")

reversible = Subject("linformer.reversible:_ReversibleFunction", inputs=blocks("linformer.reversible", [{}, {}]))
