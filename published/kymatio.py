"""Kymatio: the modulus of complex numbers, with a gradient of zero at zero."""

from __future__ import annotations

from conformance.kit.inputs import drawn
from conformance.kit.subject import Subject
from published.packages import bare, enter

bare(enter("kymatio"), "kymatio.backend")

modulus = Subject("kymatio.backend.torch_backend:ModulusStable", inputs=drawn((4, 3, 2)))
