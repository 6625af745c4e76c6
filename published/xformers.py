"""xFormers: a gated linear unit whose steps are written out, and unbinding and stacking without copies."""

from __future__ import annotations

from conformance.kit.inputs import drawn
from conformance.kit.subject import Subject
from published.packages import bare, enter

bare(enter("xformers"), "xformers.ops")

swiglu = Subject(
    "xformers.ops.swiglu_op:_SwiGLUDecomposedFunc",
    inputs=drawn((4, 3), (5, 3), (5,), (5, 3), (5,), (2, 5), (2,)),
)
unbind = Subject("xformers.ops.unbind:_Unbind", inputs=drawn((3, 4), 0))
