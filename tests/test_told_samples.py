"""What a failure says of the other samples of a subject: which are right, and what sets the wrong one apart."""

from __future__ import annotations

import pytest
import torch

from conformance import ConformanceError, check


def random(*shape):
    return torch.rand(*shape, dtype=torch.float64, requires_grad=True)


class Square(torch.autograd.Function):
    """The square, weighted if there is a weight."""

    @staticmethod
    def forward(ctx, x, weight=None):
        ctx.save_for_backward(x)
        ctx.weight = 1.0 if weight is None else weight
        return ctx.weight * x.square()

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 2 * grad * x * ctx.weight, None


class WrongWithoutWeight(Square):
    """Forgets a factor where it has no weight."""

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return (1 if ctx.weight == 1.0 else 2) * grad * x * ctx.weight, None


class WrongInThreeDimensions(Square):
    """Takes the last dimension for the second one."""

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 2 * grad * x * ctx.weight * (x.shape[1] if x.dim() > 2 else 1), None


class AlwaysWrong(Square):
    """Forgets the factor."""

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * x * ctx.weight, None


class RaisesInThreeDimensions(Square):
    """Refuses what its forward took."""

    @staticmethod
    def backward(ctx, grad):
        return Square.backward(ctx, grad if grad.dim() < 3 else grad.reshape(7, 7))


class WrongWithOneMoreColumn(Square):
    """Right at the size of each sample."""

    @staticmethod
    def backward(ctx, grad):
        gradient, _ = Square.backward(ctx, grad)
        return gradient * (1.5 if grad.shape[-1] > 2 and ctx.weight == 3.0 else 1.0), None


class ForLeaves(Square):
    """Adds to the grad of a leaf itself, and takes every tensor for one."""

    @staticmethod
    def forward(ctx, x, weight=None):
        ctx.is_leaf = x.is_leaf
        return Square.forward(ctx, x, weight)

    @staticmethod
    def backward(ctx, grad):
        gradient, _ = Square.backward(ctx, grad)
        return gradient * (1 if ctx.is_leaf else 2), None


SAMPLES = [(random(3), None), (random(3), 2.0), (random(2, 2), 3.0)]
DEEP = [(random(3), 2.0), (random(2, 3, 2), 2.0)]


def told(function, samples, only="test_gradient_is_the_derivative"):
    with pytest.raises(ConformanceError) as caught:
        check(function, *samples, only=only)
    return " ".join(str(caught.value).replace("|", "").split())


@pytest.mark.parametrize(
    ("function", "samples", "said"),
    [
        (
            WrongWithoutWeight,
            SAMPLES,
            "fails with sample 0, and holds with sample 1 and sample 2; only in sample 0 argument 1 is None",
        ),
        (
            WrongInThreeDimensions,
            DEEP,
            "fails with sample 1, and holds with sample 0; only in sample 1 argument 0 is 3-d",
        ),
        (AlwaysWrong, SAMPLES, "fails with each of 3 samples"),
        (
            RaisesInThreeDimensions,
            DEEP,
            "raises with sample 1, and holds with sample 0; only in sample 1 argument 0 is 3-d",
        ),
        (ForLeaves, SAMPLES[:1], "it holds for leaves"),
    ],
)
def test_what_sets_the_wrong_sample_apart_is_said(function, samples, said):
    assert said in told(function, samples)


def test_the_same_is_said_of_what_shows_in_a_variation_alone():
    said = "fails with sample 1, and holds with sample 0; only in sample 1 argument 1 is 3.0"
    samples = [(random(2, 2), 2.0), (random(2, 2), 3.0)]
    assert told(WrongWithOneMoreColumn, samples, "Function.backward.gradient").count(said) == 1


def test_of_one_sample_nothing_is_said():
    text = told(AlwaysWrong, SAMPLES[:1])
    assert "fails with" not in text
    assert "leaves" not in text
