"""What a run holds: descriptors, threads, processes and memory of the controller, the forkserver and the ranks."""

from __future__ import annotations

import gc
import os
import threading
from pathlib import Path

from conformance.ranks.client import Forkserver
from conformance.ranks.group import RankGroup


def held(group: RankGroup | None, forkserver: Forkserver) -> dict[str, int]:
    assert group is not None
    assert forkserver.process is not None
    gc.collect()
    ranks = [process.pid for process in group.ranks]
    children = Path(f"/proc/{forkserver.process.pid}/task/{forkserver.process.pid}/children").read_text().split()
    return {
        "descriptors": len(os.listdir("/proc/self/fd")),
        "threads": threading.active_count(),
        "processes": len(children),
        "memory": private(os.getpid()),
        "forkserver memory": private(forkserver.process.pid),
        "noted exits": len(forkserver.exits) + len(forkserver.not_awaited),
        "rank descriptors": sum(len(os.listdir(f"/proc/{pid}/fd")) for pid in ranks),
        "rank threads": sum(len(os.listdir(f"/proc/{pid}/task")) for pid in ranks),
        "rank memory": sum(private(pid) for pid in ranks),
    }


def private(pid: int) -> int:
    _, resident, shared, *_ = (int(word) for word in Path(f"/proc/{pid}/statm").read_text().split())
    return (resident - shared) * os.sysconf("SC_PAGE_SIZE")
