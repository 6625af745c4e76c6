"""diffsort: the distribution function of the normal distribution."""

from __future__ import annotations

from conformance.kit.inputs import drawn
from conformance.kit.subject import Subject
from published.packages import bare, enter

bare(enter("diffsort"), "diffsort")

normal_cdf = Subject("diffsort.functional:NormalCDF", inputs=drawn((4, 3), 0.8))
