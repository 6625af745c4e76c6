"""pytorch_optimizer: the normalization of the bi-tempered loss."""

from __future__ import annotations

from conformance.kit.inputs import drawn
from conformance.kit.subject import Subject
from published.packages import bare, enter

bare(enter("pytorch-optimizer"), "pytorch_optimizer.loss")

normalization = Subject("pytorch_optimizer.loss.bi_tempered:ComputeNormalization", inputs=drawn((4, 5), 0.8, 60))
