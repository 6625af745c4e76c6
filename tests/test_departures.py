"""What PyTorch does against its pages: a departure that PyTorch mends fails here, and its row can then go."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

from tests.site import ROOT

sys.path.insert(0, str(ROOT / "conf"))
import departures


@pytest.mark.parametrize("departure", departures.DEPARTURES, ids=lambda departure: departure.__name__)
def test_the_installed_pytorch_still_does_it(departure: Callable[[], bool]) -> None:
    assert departure()
