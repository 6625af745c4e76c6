"""Settings that all rank groups of a run share."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass

#: How long groups that a test makes may take to start with NCCL and similar backends (seconds).
GROUPS_ON_DEVICES = 10.0


@dataclass(frozen=True)
class Settings:
    """How ranks are started, and how long tests may take."""

    backend: str = "gloo"
    device: str = "cpu"
    timeout: float = 30.0
    path: tuple[str, ...] = ()
    setup: tuple[str, ...] = ()
    debug: bool = False
    resolution: float = 0.0

    def deadline(self, own: float | None) -> float:
        """Return how long a test may take: its own deadline if shorter than the run's, and the time to start groups.

        A longer ``--timeout`` than usual means a slow subject: the test's own deadline grows in proportion.
        """
        starting = 0.0 if self.device == "cpu" else GROUPS_ON_DEVICES
        slower = max(1.0, self.timeout / Settings.timeout)
        return self.timeout if own is None else min(own * slower + starting, self.timeout)


def search_path() -> tuple[str, ...]:
    """Return where ranks look for subjects: the current directory first, as for ``python -m``."""
    return tuple(dict.fromkeys([os.getcwd(), *filter(None, sys.path)]))
