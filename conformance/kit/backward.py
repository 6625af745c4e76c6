"""Find out whether a subject has a backward, and why its calls have nothing to differentiate."""

from __future__ import annotations

import difflib
import dis
import inspect
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch

from conformance.kit.deviations import NotApplicable, Skipped
from conformance.kit.subject import Subject
from conformance.kit.tensors import same_values

NO_LEAF = "no sample has a floating-point or complex tensor to differentiate"
NO_TENSOR = "with these samples it returns no tensor, so backward never runs; give samples for which it returns one"
NO_RESULT = "with these samples it returns None, so backward never runs; perhaps forward lacks its return"
MUTATED = "it changes an argument and returns None, so backward never runs; return the changed tensor in call="
EIGHT_BITS = "its results are eight-bit floats, for which PyTorch computes no gradient; cast them in call="


def has_backward(subject: Subject) -> bool:
    """Whether there is a derivative: a class that does not override ``apply`` needs backward or vjp."""
    return has_own_apply(subject.function) or subject.defines("backward") or subject.defines("vjp")


def need_backward(subject: Subject) -> None:
    """Assert that there is a derivative.

    Raises:
        NotApplicable: there is none.
        Skipped: there is none, but a method whose name is probably a mistyped ``backward``.
    """
    if has_backward(subject):
        return
    why = "the class defines neither backward nor vjp"
    own = set(dir(subject.function)) - set(dir(torch.autograd.Function))
    if similar := difflib.get_close_matches("backward", sorted(own), cutoff=0.75):
        raise Skipped(f"{why}; is its {similar[0]} meant to be backward?")
    refusing = [name for name in ("backward", "vjp") if _overrides(subject.function, name)]
    raise NotApplicable(f"its {refusing[0]} does nothing but raise NotImplementedError" if refusing else why)


def need_leaf(subject: Subject, samples: Sequence[Any]) -> None:
    """Assert that there is a sample with something to differentiate.

    Raises:
        NotApplicable: there is none.
        Skipped: there is none, but a backward that returns gradients: it was written for one.
    """
    if samples:
        return
    if subject.function is not None and returns_gradients(subject.function):
        raise Skipped(f"{NO_LEAF}, and the class has a backward; give one")
    raise NotApplicable(NO_LEAF)


def returns_gradients(function: Any) -> bool:
    """Tell whether backward or vjp of a class has a return with something else than None, by its instructions."""
    methods: list[Any] = [getattr(function, name, None) for name in ("backward", "vjp") if _overrides(function, name)]
    codes = [getattr(inspect.unwrap(method), "__code__", None) for method in methods]
    return any(
        step.opname == "RETURN_VALUE" and not (before.opname == "LOAD_CONST" and _is_none(before.argval))
        for code in codes
        for before, step in pairwise(dis.get_instructions(code) if code else ())
    )


def _is_none(constant: Any) -> bool:
    return constant is None or (isinstance(constant, tuple) and not any(one is not None for one in constant))


def why_nothing(runs: Sequence[Any]) -> NotApplicable | Skipped:
    """Return how a test ends if no output of any of these calls can be differentiated."""
    tensors = [tensor for run in runs for tensor in run.tensors]
    if any(tensor.requires_grad for tensor in tensors):
        return Skipped(EIGHT_BITS)
    if tensors:
        return NotApplicable("no output of any sample requires grad")
    if any(run.result is not None for run in runs):
        return Skipped(NO_TENSOR)
    return Skipped(MUTATED if any(map(has_changed, runs)) else NO_RESULT)


def has_changed(run: Any) -> bool:
    """Whether a call has changed a tensor among its arguments."""
    pairs = zip(run.sample.values, run.values, strict=False)
    return any(isinstance(old, torch.Tensor) and not same_values(old.detach(), new) for old, new in pairs)


def _overrides(function: Any, name: str) -> bool:
    return getattr(function, name, None) is not getattr(torch.autograd.Function, name)


def has_own_apply(function: Any) -> bool:
    """Whether a class, or one of its bases, replaces ``apply``; a subject that is not a class is called directly."""
    if function is None:
        return True
    bases = function.__mro__[: function.__mro__.index(torch.autograd.Function)]
    return any("apply" in vars(base) for base in bases)
