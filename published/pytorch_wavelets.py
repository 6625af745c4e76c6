"""pytorch_wavelets: filter banks, and a smooth modulus."""

from __future__ import annotations

from conformance.kit.inputs import drawn
from conformance.kit.specs import random
from conformance.kit.subject import Subject
from published.packages import absent, bare, enter

bare(enter("pytorch-wavelets"), "pytorch_wavelets.dwt")
bare(enter("pytorch-wavelets"), "pytorch_wavelets.scatternet")
absent("pywt", dwt_coeff_len=lambda data, filters, mode: (data + filters - 1) // 2)

_LOW, _HIGH = (random((1, 1, 2), seed).detach() for seed in (7, 8))
_ROWS = tuple(random((1, 1, 1, 2), seed).detach() for seed in (3, 4))
_COLUMNS = tuple(random((1, 1, 2, 1), seed).detach() for seed in (5, 6))

analysis = Subject("pytorch_wavelets.dwt.lowlevel:AFB1D", inputs=drawn((2, 3, 8), _LOW, _HIGH, 0))
synthesis = Subject("pytorch_wavelets.dwt.lowlevel:SFB1D", inputs=drawn((2, 3, 4), (2, 3, 4), _LOW, _HIGH, 0))
analysis_2d = Subject("pytorch_wavelets.dwt.lowlevel:AFB2D", inputs=drawn((2, 3, 4, 6), *_ROWS, *_COLUMNS, 0))
smooth_modulus = Subject("pytorch_wavelets.scatternet.lowlevel:SmoothMagFn", inputs=drawn((4, 3), (4, 3), 0.5))
