"""PyTorch's MultiThreadedTestCase: ranks are threads of one process, with nothing between them.

python benchmarks/peers/threaded.py WORLD CHECKS
"""

from __future__ import annotations

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from check import one_check
from torch.testing._internal.common_distributed import MultiThreadedTestCase

WORLD, CHECKS = int(sys.argv[1]), int(sys.argv[2])


class Gathers(MultiThreadedTestCase):
    """As many tests as were asked for."""

    @property
    def world_size(self) -> int:
        """The number of ranks."""
        return WORLD

    def setUp(self) -> None:
        """Start the threads."""
        super().setUp()
        self._spawn_threads()

    def _check(self) -> None:
        one_check(self.rank, WORLD)


for number in range(CHECKS):
    setattr(Gathers, f"test_{number:04}", lambda self: self._check())

if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=0)
