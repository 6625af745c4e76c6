"""RoMa: the rotation nearest to a matrix."""

from __future__ import annotations

from conformance.kit.inputs import drawn
from conformance.kit.subject import Subject
from published.packages import bare, enter

bare(enter("roma"), "roma")

horn = Subject("roma.mappings:_HornEigenvectorManualDerivatives", inputs=drawn((2, 3, 3), 0.0))
