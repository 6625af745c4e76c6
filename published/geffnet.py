"""geffnet: activations that keep their input and compute the rest again."""

from __future__ import annotations

from conformance.kit.inputs import drawn
from conformance.kit.subject import Subject
from published.packages import bare, enter

bare(enter("geffnet"), "geffnet.activations")

swish = Subject("geffnet.activations.activations_me:SwishJitAutoFn", inputs=drawn((4, 3)))
mish = Subject("geffnet.activations.activations_me:MishJitAutoFn", inputs=drawn((4, 3)))
hard_sigmoid = Subject("geffnet.activations.activations_me:HardSigmoidJitAutoFn", inputs=drawn((4, 3)))
hard_swish = Subject("geffnet.activations.activations_me:HardSwishJitAutoFn", inputs=drawn((4, 3)))
