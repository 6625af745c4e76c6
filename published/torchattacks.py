"""torchattacks: the activation of a network it brings along."""

from __future__ import annotations

from conformance.kit.inputs import drawn
from conformance.kit.subject import Subject
from published.packages import bare, enter

bare(enter("torchattacks"), "robustbench.model_zoo.architectures")

swish = Subject("robustbench.model_zoo.architectures.dm_wide_resnet:_Swish", inputs=drawn((4, 3)))
