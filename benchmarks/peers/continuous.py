"""PyTorch's MultiProcContinuousTest: the same processes for all tests of a class.

python benchmarks/peers/continuous.py WORLD CHECKS
"""

from __future__ import annotations

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from check import one_check
from torch.testing._internal.common_distributed import MultiProcContinuousTest

WORLD, CHECKS = int(sys.argv[1]), int(sys.argv[2])


class Gathers(MultiProcContinuousTest):
    """As many tests as were asked for."""

    world_size = WORLD

    @classmethod
    def backend_str(cls) -> str:
        """The backend of the group."""
        return "gloo"

    def _check(self) -> None:
        one_check(self.rank, WORLD)


for number in range(CHECKS):
    setattr(Gathers, f"test_{number:04}", lambda self: self._check())

if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=0)
