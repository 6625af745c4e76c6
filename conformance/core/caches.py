"""Where this package keeps what is expensive to find out again."""

from __future__ import annotations

import os
from pathlib import Path


def user_cache() -> Path:
    """The folder of this package in the user's cache; it may not be there yet.

    Raises:
        RuntimeError: the user has no home.
    """
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "autograd-conformance"
