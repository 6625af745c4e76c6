"""Settings that all rank groups of a run share."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass


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


def search_path() -> tuple[str, ...]:
    """Return where ranks look for subjects: the current directory first, as for ``python -m``."""
    return tuple(dict.fromkeys([os.getcwd(), *filter(None, sys.path)]))
