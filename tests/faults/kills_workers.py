"""Gathers that kill what runs them: the process above the forkserver, in the one test or whenever it is imported."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import torch.distributed as dist
from hostile import Good


def controller() -> int:
    """The process that started the forkserver which this rank was forked from."""
    return int(Path(f"/proc/{os.getppid()}/stat").read_text().rpartition(") ")[2].split()[1])


class Once(Good):
    """In the first call of a run."""

    @staticmethod
    def forward(ctx, x):
        mark = Path("killed")
        if dist.get_rank() == 0 and not mark.exists():
            mark.touch()
            os.kill(controller(), signal.SIGKILL)
        return Good.forward(ctx, x)


class Always(Good):
    """In every call."""

    @staticmethod
    def forward(ctx, x):
        if dist.get_rank() == 0:
            os.kill(controller(), signal.SIGKILL)
        return Good.forward(ctx, x)
