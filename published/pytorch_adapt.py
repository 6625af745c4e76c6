"""PyTorch Adapt: a gradient that is reversed."""

from __future__ import annotations

from conformance.kit.declared import sloped
from conformance.kit.inputs import drawn
from conformance.kit.subject import Subject
from published.packages import absent, bare, enter

bare(enter("pytorch-adapt"), "pytorch_adapt.layers")
for _dependency in ("pytorch_metric_learning.utils.common_functions", "pytorch_adapt.utils.common_functions"):
    absent(_dependency)

reversal = Subject(
    "pytorch_adapt.layers.gradient_reversal:_GradientReversal",
    inputs=drawn((4, 3), 0.5),
    formula=sloped(lambda x, weight: -weight),
)
