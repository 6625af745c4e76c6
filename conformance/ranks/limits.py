"""Read and restore resource limits of the controller and the forkserver, which a subject may change."""

from __future__ import annotations

import os
import resource
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto

KINDS = tuple(value for name, value in sorted(vars(resource).items()) if name.startswith("RLIMIT_"))


@dataclass(frozen=True)
class Limits:
    """Resource limits of a process, its priority, and the processors that it may run on."""

    resources: Mapping[int, tuple[int, int]]
    priority: int
    processors: frozenset[int]


class PutBack(Enum):
    """Result of restoring limits: none had changed, all are restored, or some cannot be set."""

    NOTHING_TO_DO = auto()
    DONE = auto()
    IMPOSSIBLE = auto()


def limits_of(pid: int) -> Limits | None:
    """Read the limits of a process, 0 for this one; None if they cannot be read, or the process has ended."""
    try:
        resources = {kind: resource.prlimit(pid, kind) for kind in KINDS}
        return Limits(resources, os.getpriority(os.PRIO_PROCESS, pid), frozenset(os.sched_getaffinity(pid)))
    except (AttributeError, OSError):
        return None


def put_back(pid: int, before: Limits | None) -> PutBack:
    """Set changed limits back."""
    now = limits_of(pid)
    if before is None or now is None or now == before:
        return PutBack.NOTHING_TO_DO
    try:
        for kind, limits in before.resources.items():
            if now.resources[kind] != limits:
                resource.prlimit(pid, kind, limits)
        if now.priority != before.priority:
            os.setpriority(os.PRIO_PROCESS, pid, before.priority)
        if now.processors != before.processors:
            os.sched_setaffinity(pid, before.processors)
    except (OSError, ValueError):
        return PutBack.IMPOSSIBLE
    return PutBack.DONE
