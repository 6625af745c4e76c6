"""e3nn: a step that is smooth."""

from __future__ import annotations

from conformance.kit.inputs import drawn
from conformance.kit.subject import Subject
from published.packages import bare, enter

bare(enter("e3nn"), "e3nn.math")

soft_unit_step = Subject("e3nn.math._soft_unit_step:_SoftUnitStep", inputs=drawn((4, 3)))
