"""The keys of what a pytest run keeps for the plugin, and where the suite is."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from conformance.run.session import Session

SUITE = Path(__file__).parents[1] / "suite"
#: Whether this run asked for the suite.
ASKED_FOR: pytest.StashKey[bool] = pytest.StashKey()
#: Where the tests of the specifications of this run's subjects are.
FOLDERS: pytest.StashKey[tuple[Path, ...]] = pytest.StashKey()
SESSION: pytest.StashKey[Session] = pytest.StashKey()
