"""What a failure says of the subject's other samples: which are right, and what sets the wrong ones apart."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import torch

from conformance.core.prose import with_article
from conformance.kit.answers import processor_time
from conformance.kit.deviations import Deviation, NotApplicable, Skipped, Unfit
from conformance.kit.samples import Sample
from conformance.kit.tensors import tensor_leaves

#: Of so many samples, for so many seconds of processor time: words are worth no more. What was not tried is not named.
MOST_TRIED, LONGEST_TRIED = 8, 2.0


def add_note(
    error: Exception, calls: Mapping[int, Callable[[], object]], samples: Sequence[Sample], took: float
) -> None:
    """Add to what a test raised with which samples it does so, by running it with each one alone.

    Args:
        error: what it raised.
        calls: runs it with one sample, by place.
        samples: all samples.
        took: about how long a run takes, in seconds of processor time.
    """
    ended: dict[int, bool] = {}
    start = processor_time()
    for at, call in calls.items() if 1 < len(calls) <= MOST_TRIED else ():
        if processor_time() - start + took > LONGEST_TRIED:
            break
        with suppress(NotApplicable, Skipped, Unfit):
            ended[at] = holds(call)
    told = failing_samples(ended, samples, "fails" if issubclass(type(error), Deviation) else "raises")
    if told:
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

    Args:
        ended: for each sample that was tried, whether the test holds with it alone.
        samples: all samples.
        fails: what the test does otherwise.

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
    return f"{fails} with {_named(wrong, samples)}, and holds with {_named(right, samples)}{only}"


def _named(places: Sequence[int], samples: Sequence[Sample]) -> str:
    *first, last = (samples[at].label for at in places)
    return f"{', '.join(first)} and {last}" if first else last


def _apart(wrong: Sequence[tuple[Any, ...]], right: Sequence[tuple[Any, ...]]) -> Iterator[str]:
    """What is said of all wrong samples and of no right one, the simplest first."""
    there = [list(_features(args)) for args in right]
    for said in _features(wrong[0]):
        if all(said in _features(args) for args in wrong) and not any(said in each for each in there):
            yield said
    sizes = [[_size(args) for args in several] for several in (wrong, right)]
    if min(sizes[0]) > max(sizes[1]):
        yield f"are more than {max(sizes[1])} elements"


def _size(args: tuple[Any, ...]) -> int:
    return sum(tensor.numel() for tensor in tensor_leaves(args))


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
