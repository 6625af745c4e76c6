"""pytorch-toolbelt: activations, and the normalization of the bi-tempered loss."""

from __future__ import annotations

from conformance.kit.inputs import drawn
from conformance.kit.subject import Subject
from published.packages import bare, enter

bare(enter("pytorch-toolbelt"), "pytorch_toolbelt.losses")
bare(enter("pytorch-toolbelt"), "pytorch_toolbelt.modules")

normalization = Subject("pytorch_toolbelt.losses.bitempered_loss:ComputeNormalization", inputs=drawn((4, 5), 0.8, 60))
normalization_heavy = Subject(
    "pytorch_toolbelt.losses.bitempered_loss:ComputeNormalization", inputs=drawn((4, 5), 1.5, 200)
)
swish = Subject("pytorch_toolbelt.modules.activations:SwishFunction", inputs=drawn((4, 3)))
mish = Subject("pytorch_toolbelt.modules.activations:MishFunction", inputs=drawn((4, 3)))
