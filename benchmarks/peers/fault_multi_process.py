"""PyTorch's MultiProcessTestCase under a fault. python benchmarks/peers/fault_multi_process.py WORLD FAULT"""

from __future__ import annotations

import fault_cases as cases
import torch.distributed as dist
from torch.testing._internal import common_distributed

common_distributed.TIMEOUT_DEFAULT = cases.DEADLINE


class Faults(common_distributed.MultiProcessTestCase):
    """New processes for every test."""

    @property
    def world_size(self) -> int:
        """The number of ranks."""
        return cases.WORLD

    def setUp(self) -> None:
        """Start the ranks."""
        super().setUp()
        self._spawn_processes()

    def _call(self, elements: int) -> None:
        store = dist.FileStore(self.file_name, cases.WORLD)
        dist.init_process_group("gloo", store=store, rank=self.rank, world_size=cases.WORLD)
        cases.one_call(self.rank, cases.WORLD, elements)
        dist.destroy_process_group()


for _name, _elements in cases.SIZES.items():
    setattr(Faults, _name, lambda self, _elements=_elements: self._call(_elements))

if __name__ == "__main__":
    cases.run_class(Faults)
