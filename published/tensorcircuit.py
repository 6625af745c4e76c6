"""TensorCircuit: a QR decomposition with a gradient of its own."""

from __future__ import annotations

from conformance.kit.inputs import drawn
from conformance.kit.subject import Subject
from published.packages import bare, enter

bare(enter("tensorcircuit"), "tensorcircuit.backends")

qr = Subject("tensorcircuit.backends.pytorch_ops:torchqr", inputs=drawn((4, 3)))
