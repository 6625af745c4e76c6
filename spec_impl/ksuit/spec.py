"""How AllGatherGradAutograd is called; imported only where its tests run."""

from __future__ import annotations

from conformance.kit import Specification
from conformance.kit.gathers.expected import samples

specification = Specification(samples, gathers=True, gradient="spec", result="tuple")
