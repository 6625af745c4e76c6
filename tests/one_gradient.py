"""What is asked of a collective in most tests of the spec: its gradient, and what is said of it."""

from __future__ import annotations

import pytest
import torch

from conformance import GROUP, ConformanceError, check


def matrix() -> torch.Tensor:
    return torch.randn(6, 2, dtype=torch.float64, requires_grad=True)


def gradient_of(function: object, **given: object):
    """The verdict on Collective.backward.gradient, and its report."""
    found = check(function, (matrix(), GROUP), spec="Collective", ranks=2, only="Collective.backward.gradient", **given)
    return found.subjects[0].clause("Collective.backward.gradient")


def flat(error: pytest.ExceptionInfo[ConformanceError]) -> str:
    lines = (line.strip().removeprefix("|").strip() for line in str(error.value).splitlines())
    return " ".join(" ".join(lines).split())
