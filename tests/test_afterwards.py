"""What a failed test is referred to does not depend on how long the test took."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch.utils._python_dispatch import _get_current_dispatch_mode

from conformance import Subject
from conformance.kit import attempt
from conformance.kit.deviations import Deviation, NotApplicable
from conformance.kit.world import World
from tests.planted.unwritten import RowsLeftUnwritten

BODY = __name__, "body", ("subject", "world")
X = torch.ones(4, 3, dtype=torch.float64, requires_grad=True)


def body(subject, world):
    """Fails unless new memory holds zeros."""
    if bool((subject(X)[-1] != 0).any()):
        raise Deviation("the last row", "other numbers", "zeros")


@pytest.mark.parametrize("seconds", [0.0, 100.0])
def test_what_comes_of_unwritten_memory_is_referred_however_long_the_test_took(monkeypatch, seconds):
    clock, empty = itertools.count(0.0, seconds), torch.empty

    def dirty(*args, **options):
        return empty(*args, **options) if _get_current_dispatch_mode() else torch.full(args, 7.0, **options)

    monkeypatch.setattr(attempt, "processor_time", lambda: next(clock))
    monkeypatch.setattr(torch, "empty", dirty)
    subject = Subject(RowsLeftUnwritten, inputs=lambda: [(X,)])
    with pytest.raises(NotApplicable, match=r"see Function\.forward\.deterministic"):
        attempt.call_body(*BODY, {"subject": subject, "world": World()})
