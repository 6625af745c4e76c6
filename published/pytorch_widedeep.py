"""pytorch-widedeep: sparse relatives of softmax, after TabNet."""

from __future__ import annotations

from conformance.kit.inputs import drawn
from conformance.kit.subject import Subject
from published.packages import bare, enter

bare(enter("pytorch-widedeep"), "pytorch_widedeep.models.tabular.tabnet")

sparsemax = Subject("pytorch_widedeep.models.tabular.tabnet.sparsemax:SparsemaxFunction", inputs=drawn((4, 5), -1))
entmax15 = Subject("pytorch_widedeep.models.tabular.tabnet.sparsemax:Entmax15Function", inputs=drawn((4, 5), -1))
