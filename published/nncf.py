"""NNCF: quantizers whose gradient goes straight through."""

from __future__ import annotations

from conformance.kit.declared import straight
from conformance.kit.inputs import drawn
from conformance.kit.subject import Subject
from published.packages import bare, enter

bare(enter("nncf"), "nncf.torch.quantization")

threshold = Subject("nncf.torch.functions:STThreshold", inputs=drawn((4, 3), 0.5), formula=straight)
