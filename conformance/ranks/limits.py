"""Resource limits of the controller and the forkserver, which a subject may change: prlimit reaches any process."""

from __future__ import annotations

import resource
from collections.abc import Mapping

KINDS = tuple(value for name, value in sorted(vars(resource).items()) if name.startswith("RLIMIT_"))
Limits = Mapping[int, tuple[int, int]]


def limits_of(pid: int) -> Limits:
    """Every limit of a process, 0 for this one; empty where that cannot be asked, or the process is gone."""
    try:
        return {kind: resource.prlimit(pid, kind) for kind in KINDS}
    except (AttributeError, OSError):
        return {}


def put_back(pid: int, before: Limits) -> bool | None:
    """Set changed limits back: True where some had changed, False where none had, None where they cannot be set."""
    changed = {kind: before[kind] for kind, now in limits_of(pid).items() if kind in before and now != before[kind]}
    try:
        for kind, limits in changed.items():
            resource.prlimit(pid, kind, limits)
    except (OSError, ValueError):
        return None
    return bool(changed)
