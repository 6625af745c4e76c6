"""PyTorch's MultiProcessTestCase: new processes for every test.

python benchmarks/peers/multi_process.py WORLD CHECKS
"""

from __future__ import annotations

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import torch.distributed as dist
from check import one_check
from torch.testing._internal.common_distributed import MultiProcessTestCase

WORLD, CHECKS = int(sys.argv[1]), int(sys.argv[2])


class Gathers(MultiProcessTestCase):
    """As many tests as were asked for."""

    @property
    def world_size(self) -> int:
        """The number of ranks."""
        return WORLD

    def setUp(self) -> None:
        """Start the ranks."""
        super().setUp()
        self._spawn_processes()

    def _check(self) -> None:
        store = dist.FileStore(self.file_name, WORLD)
        dist.init_process_group("gloo", store=store, rank=self.rank, world_size=WORLD)
        one_check(self.rank, WORLD)
        dist.destroy_process_group()


for number in range(CHECKS):
    setattr(Gathers, f"test_{number:04}", lambda self: self._check())

if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=0)
