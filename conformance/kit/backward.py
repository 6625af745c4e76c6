"""Whether a subject has a backward at all."""

from __future__ import annotations

import difflib
from typing import Any

import torch

from conformance.kit.deviations import NotApplicable, Skipped
from conformance.kit.subject import Subject


def has_backward(subject: Subject) -> bool:
    """Whether there is a derivative: a class that does not override ``apply`` needs a backward or a vjp."""
    return has_own_apply(subject.function) or subject.defines("backward") or subject.defines("vjp")


def need_backward(subject: Subject) -> None:
    """Continue if there is a derivative.

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


def _overrides(function: Any, name: str) -> bool:
    return getattr(function, name, None) is not getattr(torch.autograd.Function, name)


def has_own_apply(function: Any) -> bool:
    """Whether a class, or one it derives from, replaces ``apply``; a subject that is no class is called as it is."""
    if function is None:
        return True
    bases = function.__mro__[: function.__mro__.index(torch.autograd.Function)]
    return any("apply" in vars(base) for base in bases)
