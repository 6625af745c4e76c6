"""Name the folder for results that are expensive to compute again."""

from __future__ import annotations

import os
from pathlib import Path


def user_cache() -> Path:
    """Return this package's folder in the user's cache; it may not exist yet.

    Raises:
        RuntimeError: the user has no home.
    """
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "autograd-conformance"
