"""PEFT: products of low rank and circular convolutions for adapters."""

from __future__ import annotations

import torch

from conformance.kit.inputs import drawn
from conformance.kit.subject import Subject
from published.packages import absent, bare, enter

for part in ("c3a", "loha", "randlora"):
    bare(enter("peft"), f"peft.tuners.{part}")
absent("peft.tuners.loha.config", LoHaConfig=None)
absent("peft.tuners.lycoris_utils", LycorisLayer=object)
absent("peft.tuners.randlora.config", RandLoraConfig=None)
absent("peft.tuners._buffer_dict", BufferDict=None)
absent("peft.tuners.tuners_utils", BaseTunerLayer=object, check_adapters_to_merge=None)
absent("peft.utils.other", transpose=None)
absent("transformers.pytorch_utils", Conv1D=None)

scale = torch.tensor(0.5, dtype=torch.float64)
base = torch.linspace(-1, 1, 8, dtype=torch.float64).view(2, 1, 4)

convolution = Subject("peft.tuners.c3a.utils:BlockCircularConvolution", inputs=drawn((5, 6), (4, 2, 3)))
hada = Subject("peft.tuners.loha.layer:HadaWeight", inputs=drawn((4, 2), (2, 3), (4, 2), (2, 3), scale))
hada_cp = Subject(
    "peft.tuners.loha.layer:HadaWeightCP",
    inputs=drawn((2, 2, 3, 3), (2, 4), (2, 5), (2, 2, 3, 3), (2, 4), (2, 5), scale),
)
bases = Subject("peft.tuners.randlora.layer:UniqueBaseGrad", inputs=drawn(base, (2, 3), (3, 4)))
