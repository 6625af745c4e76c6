"""How a script ends."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable
from typing import NoReturn


def finish(check: Callable[[], bool]) -> NoReturn:
    """Exit with 1 where the check finds the bug, 0 where it does not, and 2 if it could not finish."""
    try:
        status = int(check())
    except Exception:
        traceback.print_exc()
        status = 2
    sys.exit(status)
