"""Differences agree with right slopes, accuse wrong ones, and hold back where they cannot tell."""

from __future__ import annotations

import math

import pytest
import torch

from conformance.kit.numerics.slopes import compare_slope
from conformance.kit.world import World

DOUBLE, SINGLE = 2.2e-16, 1.2e-7


def terms(*numbers):
    return torch.tensor(numbers, dtype=torch.float64)


def along(function):
    return lambda step: terms(function(step), 1.0)


@pytest.mark.parametrize(
    ("function", "slope", "verdict"),
    [
        (math.sin, 1.0, "agrees"),
        (math.sin, 1.001, "differs"),
        (math.sin, 0.0, "differs"),
        (lambda t: abs(t), 0.3, "unclear"),
        (lambda t: max(t, 0.0), 1.0, "unclear"),
        (lambda t: math.floor(t), 0.0, "unclear"),
        (lambda t: 1.0, 1.0, "differs"),
        (lambda t: math.sin(1e6 * t), 1e6, "agrees"),
        (lambda t: float("nan"), 1.0, "unclear"),
        (math.sin, float("nan"), "differs"),
        (lambda t: abs(t), float("nan"), "unclear"),
    ],
)
def test_a_slope_agrees_differs_or_is_unclear(function, slope, verdict):
    assert compare_slope(World(), along(function), slope, DOUBLE).verdict == verdict


def test_no_change_at_all_agrees_with_no_slope_that_noise_would_hide():
    """As of a rounding, whose results fit in single precision, so that two steps alone are taken."""
    flat = along(lambda step: 1.0)
    assert compare_slope(World(), flat, 0.01, SINGLE).verdict == "unclear"
    assert compare_slope(World(), flat, 0.0, SINGLE).verdict == "agrees"


def test_single_precision_inside_is_not_accused():
    rounded = lambda t: round(math.sin(t) * 2**24) / 2**24  # noqa: E731
    assert compare_slope(World(), along(rounded), 1.0, DOUBLE).verdict == "agrees"
    assert compare_slope(World(), along(rounded), 1.5, DOUBLE).verdict == "differs"


@pytest.mark.parametrize(("slope", "verdict"), [(1e-8, "unclear"), (9e-6, "unclear"), (2e-5, "differs")])
def test_what_gradcheck_forgives_is_not_accused_where_forward_does_not_show_it(slope, verdict):
    nearly_constant = lambda t: 1 + 1e-10 * t  # noqa: E731
    assert compare_slope(World(), along(nearly_constant), slope, DOUBLE, reach=1.0).verdict == verdict


def test_what_gradcheck_forgives_is_accused_where_forward_shows_it():
    small = lambda t: terms(1e-7 * math.sin(t), 1e-7)  # noqa: E731
    assert compare_slope(World(), small, 2e-7, DOUBLE, reach=1.0).verdict == "differs"
    assert compare_slope(World(), small, 1e-7, DOUBLE, reach=1.0).verdict == "agrees"


@pytest.mark.parametrize(("slope", "verdict"), [(0.05, "agrees"), (0.9, "unclear"), (5.0, "differs")])
def test_kinks_that_cancel_in_the_loss_are_kinks(slope, verdict):
    two_ties = lambda t: terms(max(t, 0.0), -0.9 * max(t, 0.0), 1.0)  # noqa: E731
    assert compare_slope(World(), two_ties, slope, DOUBLE).verdict == verdict


def test_a_smooth_function_of_many_terms_is_held_to_its_slope():
    curved = lambda t: torch.linspace(0, 6, 1000, dtype=torch.float64).add(t).sin()  # noqa: E731
    slope = float(torch.linspace(0, 6, 1000, dtype=torch.float64).cos().sum())
    assert compare_slope(World(), curved, slope, DOUBLE).verdict == "agrees"
    assert compare_slope(World(), curved, slope + 0.1, DOUBLE).verdict == "differs"
    assert compare_slope(World(), curved, slope + 1.0, 1.2e-7).verdict == "differs"
