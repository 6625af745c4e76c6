"""TabNet: sparse relatives of softmax and sigmoid."""

from __future__ import annotations

from conformance.kit.inputs import drawn
from conformance.kit.subject import Subject
from published.packages import bare, enter

bare(enter("pytorch-tabnet"), "pytorch_tabnet")

sparsemax = Subject("pytorch_tabnet.sparsemax:SparsemaxFunction", inputs=drawn((4, 5), -1))
entmax15 = Subject("pytorch_tabnet.sparsemax:Entmax15Function", inputs=drawn((4, 5), -1))
entmoid15 = Subject("pytorch_tabnet.sparsemax:Entmoid15", inputs=drawn((4, 5)))
