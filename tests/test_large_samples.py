"""``check`` of a large sample: it says at once that it takes long, and makes no more calls than are allowed for."""

from __future__ import annotations

import pytest
import torch

from conformance import ConformanceError, check
from conformance.run import judging


class Squared(torch.autograd.Function):
    """Correct."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, grad):
        return 2 * grad * ctx.saved_tensors[0]


@pytest.fixture
def few_calls(monkeypatch):
    """A megabyte counts as large, and a hundred calls are allowed for."""
    monkeypatch.setattr(judging, "LARGE", 1)
    monkeypatch.setattr(judging, "MOST", 100)


def test_what_is_beyond_the_calls_is_no_pass(few_calls):
    x = torch.linspace(0.3, 1.7, 130_000, dtype=torch.float64, requires_grad=True)
    with (
        pytest.warns(UserWarning, match="a sample has 1 MB, and is called hundreds of times"),
        pytest.raises(ConformanceError) as caught,
    ):
        check(Squared, (x,))
    (subject,) = caught.value.report.subjects
    reasons = {clause.level: clause.reason for clause in subject.clauses if clause.verdict == "skipped"}
    assert subject.verdict == "incomplete"
    assert subject.clause("Function.apply.accepts").verdict == "pass"  # the strictest come first
    assert "give a smaller one, which shows as much" in reasons["quality"]


def test_a_small_sample_is_judged_whole(few_calls):
    x = torch.linspace(0.3, 1.7, 100, dtype=torch.float64, requires_grad=True)
    (subject,) = check(Squared, (x,)).subjects
    assert subject.verdict == "conforms"
