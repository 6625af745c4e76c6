"""In which precision a Function works is seen from what small steps do to it."""

from __future__ import annotations

import pytest
import torch

from conformance import Subject, check
from conformance.kit.numerics.precision import working_epsilon
from conformance.kit.sample_calls import active_samples
from conformance.kit.tolerances import BFLOAT, SINGLE
from conformance.kit.world import World
from tests.correct import single_inside
from tests.correct.function_ways import InPlace, Steep


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("MatmulInSingle", SINGLE),
        ("ScaledMatmulInSingle", SINGLE),
        ("RootMeanSquareNorm", SINGLE),
        ("MatmulInHalf", BFLOAT),
    ],
)
def test_what_is_rounded_inside_is_seen(name: str, expected: float) -> None:
    """A Function that casts its inputs down works in that precision, whatever it does with the result."""
    function = getattr(single_inside, name)
    subject = Subject(function, inputs=getattr(function, "inputs", single_inside.inputs))
    assert [working_epsilon(sample, World()) for sample in active_samples(subject, World())] == [expected]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16])
def test_dtypes_are_taken_at_their_word(dtype: torch.dtype) -> None:
    """A Function that works in the dtype of its inputs promises no finer one."""
    subject = Subject(InPlace, inputs=[(torch.linspace(0.1, 3, 20, dtype=dtype),)])
    assert [working_epsilon(sample, World()) for sample in active_samples(subject, World())] == [0.0]


def test_what_bends_sharply_is_not_taken_for_rounded() -> None:
    """A second derivative of hundreds is no rounding."""
    subject = Subject(Steep, inputs=[(torch.linspace(-1, 1, 20, dtype=torch.float64),)])
    assert [working_epsilon(sample, World()) for sample in active_samples(subject, World())] == [0.0]


class SolvesInBackward(torch.autograd.Function):
    """Adds up its gradient until nothing is left to add, which only double precision lets it."""

    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad):
        found = torch.zeros_like(grad)
        while grad.dtype is not torch.float64 or not torch.equal(found, 2 * grad):
            found = found + (2 * grad - found)
        return found


def test_a_backward_that_never_ends_in_a_lower_precision_is_not_judged_there():
    x = torch.linspace(0.3, 1.7, 4, dtype=torch.float64, requires_grad=True)
    (subject,) = check(SolvesInBackward, (x,), only="Function.backward.any-precision", strict=True).subjects
    assert not any(clause.broken for clause in subject.clauses)
