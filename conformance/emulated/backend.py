"""The process groups of the emulated device. Imported by ``load`` alone."""

from __future__ import annotations

import datetime
from typing import Any

import torch.distributed as dist

from conformance.emulated import _emulated


def make_group(store: Any, rank: int, size: int, timeout: datetime.timedelta) -> Any:
    """Make the backend of one group, whose bytes Gloo carries; ``torch.distributed`` calls this."""
    return _emulated.Collectives(dist.ProcessGroupGloo(store, rank, size, timeout=timeout), rank, size)
