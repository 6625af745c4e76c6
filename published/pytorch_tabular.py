"""PyTorch Tabular: sparse relatives of softmax and sigmoid; forward and backward are class methods."""

from __future__ import annotations

from conformance.kit.inputs import drawn
from conformance.kit.subject import Subject
from published.packages import bare, enter

bare(enter("pytorch-tabular"), "pytorch_tabular.models.common.layers")

entmoid15 = Subject("pytorch_tabular.models.common.layers.activations:Entmoid15", inputs=drawn((4, 5)))
sparsemax = Subject("pytorch_tabular.models.common.layers.activations:SparsemaxFunction", inputs=drawn((4, 5), -1))
entmax15 = Subject("pytorch_tabular.models.common.layers.activations:Entmax15Function", inputs=drawn((4, 5), -1))
