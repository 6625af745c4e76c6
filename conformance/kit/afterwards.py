"""Repeat a failed test with one change of the call at a time, to find out why it failed.

The changes: zeros in new memory, leaves as arguments, and a single sample. If there are several samples, say which
are right, and what sets the wrong ones apart.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from functools import partial
from typing import Any

import torch

from conformance.core.outcomes import HOLDS_WITH
from conformance.core.prose import with_article
from conformance.kit.answers import ANSWERED, processor_time
from conformance.kit.calls import SampleCall
from conformance.kit.copies import as_leaves
from conformance.kit.deviations import Deviation, NotApplicable, Skipped, Unfit
from conformance.kit.sample_calls import every_sample
from conformance.kit.samples import Sample
from conformance.kit.subject import Subject
from conformance.kit.tensors import tensor_leaves
from conformance.kit.unwritten import FillMode, unwritten_in
from conformance.kit.world import World

#: A test that ends with these words says nothing of its own.
REFERS = "; see "
#: What a Function reads of a tensor that is another for leaves.
OF_LEAVES = {"grad", "is_leaf", "register_hook", "register_post_accumulate_grad_hook", "retain_grad", "retains_grad"}
FOR_LEAVES = "it holds for leaves; here the arguments are results of operations, as they are for a layer inside a model"
IN_SINGLE = "it takes float32, but the samples are float64: give float32 samples"
#: A note where one rank alone is refused, in the test of that; no other test there says anything of its own.
NEEDS_OTHERS = "if it is made for several ranks only, Subject(..., ranks=(2, 3)) says so"
REFUSES_ONE = f"it raises an error in a group of one rank{REFERS}Collective.forward.one-rank"
#: Which clause is broken where results, or gradients alone, depend on memory that nothing was written to.
OF_UNWRITTEN = {"results": "Function.forward.deterministic", "gradients": "Function.backward.gradient"}
#: Of so many samples, for so many seconds of processor time: words are worth no more. What was not tried is not named.
MOST_TRIED, LONGEST_TRIED = 8, 2.0


def try_again(error: Exception, subject: Subject, world: World, took: float, call: Callable[..., object]) -> str:
    """Add the probable cause to a test's exception. Nothing is repeated on several ranks.

    ``call`` runs the test with a subject; ``took`` is its processor time (seconds).

    Returns:
        Why its clause is not judged: the test passes with zeros in memory that the subject never wrote to, or it runs
        on one rank, which a collective does not take.
    """
    if world.size > 1 or issubclass(type(error), NotApplicable | Unfit):
        return ""
    with suppress(Exception, SystemExit):  # what cannot be told is not
        if REFERS in str(error):
            return ""
        notes = getattr(error, "__notes__", ())
        if not (issubclass(type(error), Deviation | Skipped) or NEEDS_OTHERS in notes) and _refuses(subject, world):
            return REFUSES_ONE
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


def _refuses(subject: Subject, world: World) -> bool:
    """Whether a collective takes no sample in a group of one rank."""
    if subject.spec != "Collective":
        return False
    return not world.once(
        ("taken alone", subject.label), lambda: any(holds(one.run) for one in every_sample(subject, world))
    )


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


def add_note(
    error: Exception, calls: Mapping[int, Callable[[], object]], samples: Sequence[Sample], took: float
) -> None:
    """Add to what a test raised with which samples it does so, by running it with each one alone.

    ``calls`` run it with one sample each, by place; ``took`` is about the processor time of a run (seconds).
    """
    ended: dict[int, bool] = {}
    start = processor_time()
    for at, call in calls.items() if 1 < len(calls) <= MOST_TRIED else ():
        if processor_time() - start + took > LONGEST_TRIED:
            break
        with suppress(NotApplicable, Skipped, Unfit):
            ended[at] = holds(call)
    told = failing_samples(ended, samples, "fails" if issubclass(type(error), Deviation) else "raises")
    if told and told not in getattr(error, "__notes__", ()):  # as of the variation that fails already
        BaseException.add_note(error, told)


def holds(call: Callable[..., object], *args: object) -> bool:
    """Whether a test raises nothing.

    Raises:
        NotApplicable: it says nothing about that.
        Skipped: it cannot be run.
        Unfit: another clause is broken.
    """
    try:
        call(*args)
    except (NotApplicable, Skipped, Unfit):
        raise
    except Exception:
        return False
    return True


def failing_samples(ended: Mapping[int, bool], samples: Sequence[Sample], fails: str) -> str:
    """With which samples a test fails, and what only they have; empty if it fails with none of several by itself.

    ``ended`` says for each sample that was tried whether the test holds with it alone.

    >>> samples = [Sample((torch.ones(2), 1.0), "sample 0"), Sample((torch.ones(2, 3), 1.0), "sample 1")]
    >>> failing_samples({0: True, 1: False}, samples, "fails")
    'fails with sample 1, and holds with sample 0; only in sample 1 argument 0 is 2-d'
    """
    wrong, right = ([at for at, holds in ended.items() if holds is kind] for kind in (False, True))
    if not wrong or len(ended) < 2:
        return ""
    if not right:
        return f"{fails} with each of {len(wrong)} samples" if len(wrong) == len(samples) else ""
    apart = next(_apart([samples[at].args for at in wrong], [samples[at].args for at in right]), "")
    only = f"; only in {_named(wrong, samples)} {apart}" if apart else ""
    return f"{fails} with {_named(wrong, samples)}{HOLDS_WITH}{_named(right, samples)}{only}"


def _named(places: Sequence[int], samples: Sequence[Sample]) -> str:
    *first, last = (samples[at].label for at in places)
    return f"{', '.join(first)} and {last}" if first else last


def _apart(wrong: Sequence[tuple[Any, ...]], right: Sequence[tuple[Any, ...]]) -> Iterator[str]:
    """What is said of all wrong samples and of no right one, the simplest first."""
    there = [list(_features(args)) for args in right]
    for said in _features(wrong[0]):
        if all(said in _features(args) for args in wrong) and not any(said in each for each in there):
            yield said
    sizes = [[sum(map(torch.numel, tensor_leaves(args))) for args in several] for several in (wrong, right)]
    if min(sizes[0]) > max(sizes[1]):
        yield f"are more than {max(sizes[1])} elements"


def _features(args: tuple[Any, ...]) -> Iterator[str]:
    """What can be said of arguments, in a few words each."""
    every = [(f"argument {at}", value) for at, value in enumerate(args)]
    yield f"there are {len(args)} arguments"
    for told in (_kind, _value, _meta, _numbers):
        for name, value in every:
            yield from (f"{name} {said}" for said in told(value))


def _kind(value: Any) -> Iterator[str]:
    yield "is None" if value is None else f"is {with_article(value)}"
    if isinstance(value, torch.Tensor):
        yield f"is {value.dim()}-d"


def _value(value: Any) -> Iterator[str]:
    if isinstance(value, bool | int | float | str | enum.Enum):
        yield f"is {value!r}"
    if isinstance(value, int | float) and not isinstance(value, bool):
        yield "is negative" if value < 0 else "is zero" if value == 0 else "is positive"
    elif isinstance(value, list | tuple | dict):
        yield f"has {len(value)} entries"


def _meta(value: Any) -> Iterator[str]:
    if isinstance(value, torch.Tensor):
        yield f"is {str(value.dtype).removeprefix('torch.')}"
        yield "requires grad" if value.requires_grad else "requires no grad"
        if value.layout is torch.strided:
            yield "is contiguous" if value.is_contiguous() else "is not contiguous"
        yield "is empty" if not value.numel() else "is not empty"
        yield "has a dimension of one" if 1 in value.shape else "has no dimension of one"
        for dim, size in enumerate(value.shape):
            yield f"has {size} entries along dimension {dim}"


def _numbers(value: Any) -> Iterator[str]:
    if isinstance(value, torch.Tensor) and not value.is_complex() and value.layout is torch.strided:
        yield "has zeros" if bool((value == 0).any()) else "has no zeros"
        if value.dtype != torch.bool:
            yield "has negative numbers" if bool((value < 0).any()) else "has no negative numbers"
