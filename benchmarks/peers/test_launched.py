"""torchrun starts the ranks, each one runs pytest.

CHECKS=20 torchrun --standalone --nproc-per-node=2 -m pytest -q benchmarks/peers/test_launched.py
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
import torch.distributed as dist

sys.path.insert(0, str(Path(__file__).parent))

from check import one_check


@pytest.fixture(scope="session", autouse=True)
def group():
    """The group of all launched processes."""
    dist.init_process_group("gloo")
    yield
    dist.destroy_process_group()


@pytest.mark.parametrize("number", range(int(os.environ.get("CHECKS", "1"))))
def test_gather(number):
    """One check."""
    one_check(dist.get_rank(), dist.get_world_size())
