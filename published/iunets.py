"""iUNets: two ways from a skew-symmetric matrix to an orthogonal one."""

from __future__ import annotations

from conformance.kit.inputs import drawn
from conformance.kit.subject import Subject
from published.packages import bare, enter

bare(enter("iunets"), "iunets")

cayley = Subject("iunets.cayley:cayley", inputs=drawn((2, 3, 3)))
expm = Subject("iunets.expm:expm", inputs=drawn((2, 3, 3)))
