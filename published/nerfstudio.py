"""nerfstudio: an exponential whose gradient is truncated, and a gradient that is scaled."""

from __future__ import annotations

from conformance.kit.inputs import drawn
from conformance.kit.subject import Subject
from published.packages import absent, bare, enter

bare(enter("nerfstudio"), "nerfstudio.field_components")
absent("jaxtyping", Float=None)

truncated_exp = Subject("nerfstudio.field_components.activations:_TruncExp", inputs=drawn((4, 3)))
