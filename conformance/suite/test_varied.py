"""Gradients in variations of the samples: other sizes, numbers, layouts, and other requests to the call."""

from __future__ import annotations

from torch.autograd.function import BackwardCFunction

from conformance.kit import Deviation, Probe, clause, expect, need, varies
from conformance.kit.declared_elsewhere import (
    expect_declared_among_large_numbers,
    expect_declared_at,
    expect_declared_for_a_larger_loss,
    need_declared,
)
from conformance.kit.frames import is_misfit, told
from conformance.kit.judged import expect_derivative_at, expect_same, need_fine, need_numeric
from conformance.kit.variations.axis import Variation


@clause("Function.backward.gradient")
@varies("size", "number", "choice", "value", crossed=True)
def test_gradient_of_another_sample(probe: Probe, variation: Variation) -> None:
    """For other sizes, numbers, flags and signs that forward accepts, the gradient is the derivative."""
    need_numeric(probe)
    if variation.of_the_call.picks:
        expect_same(probe, variation)
    else:
        expect_derivative_at(probe, variation)


@clause("Function.backward.gradient")
@varies("size", "number", "choice")
def test_declared_gradient_of_another_sample(probe: Probe, variation: Variation) -> None:
    """For other sizes, numbers and flags that forward accepts, the gradient is the one that the formula gives there."""
    need_declared(probe)
    expect_declared_at(probe, variation)


@clause("Function.backward.gradient")
def test_declared_gradient_among_large_numbers(probe: Probe) -> None:
    """With large numbers at the ends of an input, where clipping shows, the gradient is the declared one."""
    need_declared(probe)
    expect_declared_among_large_numbers(probe)


@clause("Function.backward.gradient")
def test_declared_gradient_for_a_larger_loss(probe: Probe) -> None:
    """With far larger incoming gradients, where clipping shows, the gradient is the declared one."""
    need_declared(probe)
    expect_declared_for_a_larger_loss(probe)


@clause("Function.backward.gradient")
@varies("layout", "dtype", "parameter", crossed=True)
def test_gradient_of_one_input_in_another_form(probe: Probe, variation: Variation) -> None:
    """One input in another layout, in a lower precision or as a parameter leaves the gradients the same."""
    need_numeric(probe)
    expect_same(probe, variation)


@clause("Function.backward.needs-input-grad-honoured")
@varies("needs", crossed=True, together=True)
def test_gradients_where_some_inputs_need_one(probe: Probe, variation: Variation) -> None:
    """Each input gets the same gradient whichever inputs need one, in all variations."""
    with expect.no_error("gradients", "the same as if all inputs needed one"):
        expect_same(probe, variation)


@clause("Function.backward.unused-output")
@varies("used", crossed=True, together=True)
def test_gradients_where_some_outputs_are_used(probe: Probe, variation: Variation) -> None:
    """Whichever outputs are used in the loss, gradients are the same as with zeros for the other outputs."""
    with expect.no_error("gradients", "the same as with zeros for the other outputs", _none_unmet):
        expect_same(probe, variation)


def _none_unmet(error: Exception) -> str:
    return "backward does not handle None, despite set_materialize_grads(False)" if "None" in str(error) else ""


@clause("Function.backward.any-layout")
@varies("gradient layout", "gradient form", crossed=True)
def test_gradients_of_incoming_ones_in_another_form(probe: Probe, variation: Variation) -> None:
    """One incoming gradient in another layout, or several that share memory, leave the gradients the same."""
    expect_same(probe, variation)


@clause("Function.backward.gradient")
@varies("gradient scale")
def test_gradient_grows_with_the_loss(probe: Probe, variation: Variation) -> None:
    """A loss times a power of two has gradients times that power."""
    need_numeric(probe)
    need_fine(probe)
    expect_same(probe, variation)


@clause("Function.backward.any-input")
@varies("size", "number", "choice", "needs", "used")
def test_backward_knows_every_name(probe: Probe, variation: Variation) -> None:
    """If forward accepts a call, backward finds its names and attributes of ctx, and multiplies shapes that fit.

    Such an error is no refusal. Shapes are judged with flags and numbers only: at other sizes, forward may broadcast.
    """
    try:
        probe.go(variation)
    except (NameError, AttributeError, RuntimeError) as error:
        if isinstance(error, AttributeError) and not isinstance(error.obj, BackwardCFunction):
            raise
        if isinstance(error, RuntimeError) and not (variation.of("choice", "number") and is_misfit(error)):
            raise
        raise Deviation("backward", told(error), "gradients, since forward accepts it") from error


@clause("Function.backward.count")
@varies("number")
def test_backward_returns_a_value_for_a_default_too(probe: Probe, variation: Variation) -> None:
    """Backward returns a value for each argument, also if those that have a default are passed."""
    need(probe.sample.subject.function and probe.plain.places, "it is a plain callable, or nothing is differentiated")
    try:
        probe.go(variation)
    except RuntimeError as error:
        expect.that("incorrect number of gradients" not in str(error), "backward", str(error), "one for each input")
