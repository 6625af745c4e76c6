"""The same Function under several names."""

from __future__ import annotations

from spec_impl import torchlogix

for _number in range(8):
    globals()[f"GradFactor{_number}"] = type(f"GradFactor{_number}", (torchlogix.GradFactor,), {})
