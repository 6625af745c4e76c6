"""Zennit: the identity that its hooks are hung on."""

from __future__ import annotations

from conformance.kit.inputs import drawn
from conformance.kit.subject import Subject
from published.packages import bare, enter

bare(enter("zennit"), "zennit")

identity = Subject("zennit.core:Identity", inputs=drawn((4, 3), (2,)))
