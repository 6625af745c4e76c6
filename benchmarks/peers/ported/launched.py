"""A plugin for the ported file under torchrun, which starts the ranks; each of them runs pytest."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace

import pytest
import torch.distributed as dist


@pytest.fixture(scope="session")
def world() -> Iterator[SimpleNamespace]:
    """Stand for this process among those that were launched."""
    dist.init_process_group("gloo")
    yield SimpleNamespace(rank=dist.get_rank(), size=dist.get_world_size())
    dist.destroy_process_group()
