"""The library's own tests."""

from __future__ import annotations

import gatherlib
import gatherlib.conformance
import pytest
import torch

from conformance import ConformanceError, check

X = torch.ones(3, dtype=torch.float64, requires_grad=True)


def test_scale_conforms():
    assert check(gatherlib.conformance.scale).subjects[0].verdict == "conforms"


def test_scale_conforms_by_the_fixture(conformance_check):
    conformance_check(gatherlib.Scale, (X, 2.0), formula=lambda args, grads: (args[1] * grads[0], None), strict=True)


def test_gather_conforms_on_two_ranks(conformance_check):
    conformance_check(gatherlib.conformance.gather, ranks=2)


def test_a_scaled_gradient_must_be_declared():
    with pytest.raises(ConformanceError, match=r"Function\.backward\.gradient"):
        check(gatherlib.Scale, (X, 2.0))
