"""PyTorch's MultiProcContinuousTest under a fault. python benchmarks/peers/fault_continuous.py WORLD FAULT"""

from __future__ import annotations

from datetime import timedelta

import fault_cases as cases
from torch.testing._internal.common_distributed import MultiProcContinuousTest


class Faults(MultiProcContinuousTest):
    """The same processes for all tests."""

    world_size = cases.WORLD
    timeout = timedelta(seconds=cases.DEADLINE)

    @classmethod
    def backend_str(cls) -> str:
        """The backend of the group."""
        return "gloo"

    def _call(self, elements: int) -> None:
        cases.one_call(self.rank, cases.WORLD, elements)


for _name, _elements in cases.SIZES.items():
    setattr(Faults, _name, lambda self, _elements=_elements: self._call(_elements))

if __name__ == "__main__":
    cases.run_class(Faults)
