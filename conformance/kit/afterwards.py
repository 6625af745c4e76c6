"""Repeat a failed test with one change of the call at a time, to find out why it failed.

The changes: zeros in new memory, leaves as arguments, and a single sample.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from functools import partial
from typing import Any

import torch

from conformance.kit.answers import ANSWERED
from conformance.kit.calls import SampleCall
from conformance.kit.copies import as_leaves
from conformance.kit.deviations import NotApplicable, Skipped, Unfit
from conformance.kit.other_samples import add_note, holds
from conformance.kit.sample_calls import every_sample
from conformance.kit.subject import Subject
from conformance.kit.unwritten import FillMode, unwritten_in
from conformance.kit.world import SPOILED, World

#: A test that ends with these words says nothing of its own.
REFERS = "; see "
#: What a Function reads of a tensor that is another for leaves.
OF_LEAVES = {"grad", "is_leaf", "register_hook", "register_post_accumulate_grad_hook", "retain_grad", "retains_grad"}
FOR_LEAVES = "it holds for leaves; here the arguments are results of operations, as they are for a layer inside a model"
IN_SINGLE = "it takes float32, but the samples are float64: give float32 samples"
#: Which clause is broken where results, or gradients alone, depend on memory that nothing was written to.
OF_UNWRITTEN = {"results": "Function.forward.deterministic", "gradients": "Function.backward.gradient"}


def try_again(error: Exception, subject: Subject, world: World, took: float, call: Callable[..., object]) -> str:
    """Add the probable cause to a test's exception. Nothing is repeated on several ranks, or on damaged memory.

    Args:
        error: what it raised.
        subject: what was tested.
        world: the ranks.
        took: how long the test took, in seconds of processor time.
        call: runs the test with a subject.

    Returns:
        Why its clause is not judged: the test passes with zeros in memory that the subject never wrote to.
    """
    if world.size > 1 or SPOILED in world.known or issubclass(type(error), NotApplicable | Unfit):
        return ""
    with suppress(Exception, SystemExit):  # what cannot be told is not
        if REFERS in str(error):
            return ""
        broken = world.once(("unwritten", subject.label), lambda: _unwritten(subject, world))
        if broken and _holds_under(FillMode(0.0), call, subject):
            return f"the compared values depend on memory that was never written to{REFERS}{broken}"
        if issubclass(type(error), Skipped):
            return ""
        if subject.label not in ANSWERED and any(_takes_single(one) for one in every_sample(subject, world)):
            BaseException.add_note(error, IN_SINGLE)
        if _reads(subject, OF_LEAVES) and not holds(call, subject) and _holds_under(as_leaves(), call, subject):
            BaseException.add_note(error, FOR_LEAVES)
        samples = [] if subject.inputs is None else subject.samples(world)
        add_note(error, {at: partial(call, _with_sample(subject, at)) for at in range(len(samples))}, samples, took)
    return ""


def _unwritten(subject: Subject, world: World) -> str:
    """Return the clause that is broken if results, or only gradients, depend on such memory; empty if neither does."""
    found = [unwritten_in(sample, world) for sample in every_sample(subject, world)]
    return next((clause for part, clause in OF_UNWRITTEN.items() if part in found), "")


def _takes_single(sample: SampleCall) -> bool:
    """Whether a call returns in single precision, if none has returned so far."""
    tensors = {at: value for at, value in enumerate(sample.values) if isinstance(value, torch.Tensor)}
    doubles = {at: value.float() for at, value in tensors.items() if value.dtype == torch.float64}
    try:
        return bool(doubles) and holds(sample.having(doubles).run)
    finally:
        ANSWERED.discard(sample.subject.label)  # of its own samples it takes none


def _holds_under(mode: AbstractContextManager[Any], call: Callable[..., object], subject: Subject) -> bool:
    with mode:
        return holds(call, subject)


def _reads(subject: Subject, names: set[str]) -> bool:
    """Whether the code of the class names one of these attributes."""
    members = [getattr(member, "__func__", member) for member in vars(subject.function or object).values()]
    codes = [code for member in members if (code := getattr(member, "__code__", None))]
    return any(not names.isdisjoint(code.co_names) for code in codes)


def _with_sample(subject: Subject, at: int) -> Subject:
    given: Any = subject.inputs
    return replace(subject, inputs=lambda: [list(given() if callable(given) else given)[at]])
