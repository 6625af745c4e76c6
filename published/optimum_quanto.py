"""optimum-quanto: the product of a linear layer."""

from __future__ import annotations

from conformance.kit.inputs import drawn
from conformance.kit.subject import Subject
from published.packages import bare, enter

bare(enter("optimum-quanto"), "optimum.quanto.tensor")

linear = Subject("optimum.quanto.tensor.function:QuantizedLinearFunction", inputs=drawn((4, 3), (5, 3), (5,)))
