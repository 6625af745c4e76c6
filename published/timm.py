"""timm: activations that save their input alone."""

from __future__ import annotations

from conformance.kit.inputs import drawn
from conformance.kit.subject import Subject
from published.packages import bare, enter

bare(enter("timm"), "timm.layers")

swish = Subject("timm.layers.activations_me:SwishAutoFn", inputs=drawn((4, 3)))
mish = Subject("timm.layers.activations_me:MishAutoFn", inputs=drawn((4, 3)))
hard_sigmoid = Subject("timm.layers.activations_me:HardSigmoidAutoFn", inputs=drawn((4, 3)))
hard_swish = Subject("timm.layers.activations_me:HardSwishAutoFn", inputs=drawn((4, 3)))
hard_mish = Subject("timm.layers.activations_me:HardMishAutoFn", inputs=drawn((4, 3)))
