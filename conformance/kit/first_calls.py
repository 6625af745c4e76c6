"""Results of the first calls of a process, and how two processes differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from conformance.kit import expect
from conformance.kit.probe import Probe
from conformance.kit.sample_calls import every_sample
from conformance.kit.subject import Subject
from conformance.kit.variations.histories import run_before
from conformance.kit.variations.sizes import holds_no_object
from conformance.kit.world import World

__all__ = ["Given", "calls_after", "difference"]

#: What a call gave: each output and gradient by its name, or what it raised.
Given = Mapping[str, "torch.Tensor | str"]


def calls_after(before: str | None, subject: Subject, world: World) -> list[Given]:
    """Call every sample twice after a history; an object among the arguments may remember one, and is left out."""
    samples = [sample for sample in every_sample(subject, world) if holds_no_object(sample)]
    for sample in samples if before else ():
        run_before(str(before), sample)
    return [_given(Probe(world, sample)) for sample in samples for _ in range(2)]


def _given(probe: Probe) -> Given:
    try:
        call = probe.plain
    except Exception as error:
        return {f"call of {probe.label}": f"{type(error).__name__}: {error}"}
    results = {f"output {at} of {probe.label}": one for at, one in enumerate(call.results)}
    return {**results, **{f"gradient of {probe.name(at)}": one for at, one in call.gradients.items()}}


def difference(calls: Sequence[Given], others: Sequence[Given]) -> tuple[str, str, str] | None:
    """Return the first result that differs: its name, and both as texts; None if there is none.

    >>> difference([{"output 0": torch.ones(2)}], [{"output 0": torch.zeros(2)}])
    ('output 0', 'tensor[2] float32 [1, 1]', 'tensor[2] float32 [0, 0]')
    """
    for call, other in zip(calls, others, strict=True):
        for (name, one), right in zip(call.items(), other.values(), strict=False):
            if not _same(one, right):
                return name, _shown(one), _shown(right)
    return None


def _same(one: torch.Tensor | str, other: torch.Tensor | str) -> bool:
    if isinstance(one, str) or isinstance(other, str):
        return type(one) is type(other)  # the same error has many wordings
    return expect.alike(one, other)


def _shown(value: torch.Tensor | str) -> str:
    return value if isinstance(value, str) else expect.shown(value)
