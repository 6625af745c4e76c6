"""What a method returned that PyTorch refuses is told in words of the contract, before PyTorch's own."""

from __future__ import annotations

import pytest
import torch

from conformance import ConformanceError, check
from conformance.kit.attempt import attempt
from tests.correct.vmap import ByHand


def with_other(member, change):
    """The class with another value returned by one of its methods."""

    def other(*args):
        return change(getattr(ByHand, member)(*args))

    return type("Other", (ByHand,), {member: staticmethod(other)})


def broken_by(function):
    """The broken clauses that are not consequences, with their texts, without what surrounds lines in a terminal."""
    with pytest.raises(ConformanceError) as error:
        check(function, (torch.randn(3, dtype=torch.float64, requires_grad=True),), strict=True)
    (subject,) = error.value.report.subjects
    return {
        clause.id: " ".join(test.message for test in clause.tests if test.message)
        for clause in subject.clauses
        if clause.broken
    }


@pytest.mark.parametrize(
    ("member", "change", "clause", "said", "by_pytorch"),
    [
        ("jvp", lambda t: None, "jvp.tangent", "None", "an assertion inside PyTorch failed: Expected both"),
        ("jvp", lambda t: 1.0, "jvp.tangent", "a float", "expected Variable or None (got float)"),
        ("jvp", lambda t: t[:2], "jvp.tangent", "a tensor [2]", "different size"),
        ("backward", lambda g: 1.0, "backward.gradient", "a float", "expected Variable or None (got float)"),
        ("backward", lambda g: g[:2], "backward.gradient", "a tensor [2]", "invalid gradient at index 0"),
    ],
)
def test_a_value_that_pytorch_refuses_breaks_one_clause_which_says_what_it_is(member, change, clause, said, by_pytorch):
    broken = broken_by(with_other(member, change))
    assert list(broken) == [f"Function.{clause}"]
    what = "output 0" if member == "jvp" else "input 0"
    text = broken[f"Function.{clause}"]
    assert f"what {member} returns for {what} of sample 0\nactual:   {said}; PyTorch says: " in text
    assert f"expected: a tensor [3], as {what} is" in text
    assert by_pytorch in text
    assert "INTERNAL ASSERT" not in text


@pytest.mark.parametrize("member", ["jvp", "backward"])
def test_a_list_in_place_of_a_tuple_breaks_the_clause_on_the_number_of_values_alone(member):
    broken = broken_by(with_other(member, lambda value: [value]))
    assert list(broken) == [f"Function.{member}.count"]
    assert "a value, or a tuple of values\nactual:   a list" in broken[f"Function.{member}.count"]


def test_a_batch_that_is_no_tensor_is_told():
    broken = broken_by(with_other("vmap", lambda pair: (1.0, pair[1])))
    assert list(broken) == ["Function.vmap.batched"]
    assert "tensors that a batch gives\nactual:   0\nexpected: at least 1" in broken["Function.vmap.batched"]
    assert "IndexError" not in broken["Function.vmap.batched"]


def test_a_value_that_setup_context_returns_is_named_as_what_keeps_memory():
    broken = broken_by(with_other("setup_context", lambda _: torch.ones(2)))
    assert list(broken) == ["Function.forward.frees-memory"]
    assert (
        "setup_context returns a value, which PyTorch keeps forever: return nothing"
        in broken["Function.forward.frees-memory"]
    )


def test_an_assertion_inside_pytorch_is_told_without_its_place_and_its_plea():
    def assertion():
        raise RuntimeError(
            'x.defined() INTERNAL ASSERT FAILED at "/pytorch/a.cpp":9, please report a bug to PyTorch. Expected one'
        )

    text = attempt(assertion).message
    assert text.startswith("RuntimeError: an assertion inside PyTorch failed: Expected one\n")
