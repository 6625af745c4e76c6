"""PEFT: products of low rank and circular convolutions for adapters."""

from __future__ import annotations

from conformance.kit.inputs import drawn
from conformance.kit.subject import Subject
from published.packages import bare, enter

bare(enter("peft"), "peft.tuners.c3a")

convolution = Subject("peft.tuners.c3a.utils:BlockCircularConvolution", inputs=drawn((5, 6), (2, 3, 2)))
