"""Tensors of other kinds than plain ones: gradients negated or conjugated lazily, arguments without memory."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch.utils import _pytree as pytree

from conformance.kit import (
    NotApplicable,
    Probe,
    Run,
    SampleCall,
    Subject,
    World,
    clause,
    every_sample,
    expect,
    is_strided,
    need,
    seeds,
)
from conformance.kit.calls import BACKWARD_SEED, leaf_gradients
from conformance.kit.stand_ins import replaced
from conformance.kit.tensors import freed
from conformance.kit.variations.layouts import MetaLayoutMode, MixingMode, telling_strides


@clause("Function.backward.any-layout")
def test_lazily_negated_gradients_are_taken_as_they_read(probe: Probe) -> None:
    """Incoming gradients that are lazily negated or conjugated give the same as plain ones, or an error is raised."""
    plain = probe.cotangents
    need(all(map(is_strided, plain)) and not probe.draws, "its results are sparse, or it draws random numbers")
    lazy = probe.unless_refused("no result can be conjugated or negated lazily", lambda: list(map(_lazy, plain)))
    runs = [probe.sample.run() for _ in range(2)]
    actual = probe.unless_refused("it raises an error for them", _gradients, runs[0], lazy)
    precision = probe.epsilon_inside
    mistaken = probe.world.try_call(_gradients, runs[1], list(map(_by_memory, plain))) or probe.gradients
    kind = "conjugated" if any(cotangent.is_conj() for cotangent in lazy) else "negated"
    for at, one, right, other in zip(probe.run.leaves, actual, probe.gradients, mistaken, strict=True):
        what = f"gradient of {probe.name(at)}, incoming gradients {kind} lazily, compared with plain ones,"
        mistakes = {"backward ignores the conjugate or negative bit, and reads memory as it is": other}
        expect.close(one, right, what, precision=precision, alternatives=mistakes)


def _lazy(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor that reads the same, with its sign in a flag."""
    if tensor.dtype.is_complex:
        return tensor.conj().resolve_conj().conj()
    return torch.complex(torch.zeros_like(tensor), -tensor).conj().imag


def _by_memory(tensor: torch.Tensor) -> torch.Tensor:
    """Return the memory of the lazy form of a tensor."""
    return tensor.conj().resolve_conj() if tensor.dtype.is_complex else -tensor


def _gradients(run: Run, cotangents: list[torch.Tensor]) -> list[torch.Tensor]:
    """The gradients for these very tensors: those that are lazy stay so."""
    seeds.seed(BACKWARD_SEED)
    return run.filled(leaf_gradients(run.outputs, list(run.leaves.values()), cotangents))


@clause("Function.forward.meta")
def test_results_on_the_meta_device_are_laid_out_alike(subject: Subject, world: World) -> None:
    """With arguments on the meta device results are there too, with the shapes, dtypes and strides of real ones."""
    refusals: list[str] = []
    for sample in every_sample(subject, world):
        run = sample.run()
        # One rank may look at values, such as for its log, and the others not.
        results, refusal = _on_meta_or_why_not(sample)
        everyones = list(filter(None, world.exchange(refusal, raised=bool(refusal))))
        if everyones:
            refusals += everyones[:1]
            continue
        expect.that(len(results) == len(run.tensors), f"number of results of {sample.label}, on the meta device")
        for place in () if subject.gathers else run.places:  # what is sent may have to be where the backend is
            on, what = results[place].device, f"device of output {place} of {sample.label}, called on the meta device"
            expect.that(on.type == "meta", what, on, "meta, as the inputs")
        for index, (one, real) in enumerate(zip(results, run.tensors, strict=True)):
            if _layout(one)[:2] == _layout(real)[:2] and _layout(one) != _layout(real) and _is_torch_at_odds(sample):
                continue
            expect.that(
                _layout(one) == _layout(real),
                f"shape, dtype and strides of output {index} of {sample.label}, on the meta device",
                _layout(one),
                _layout(real),
            )
    if len(refusals) == len(every_sample(subject, world)):
        raise NotApplicable(f"it accepts no tensors on the meta device: {refusals[0]}")


def _on_meta_or_why_not(sample: SampleCall) -> tuple[list[torch.Tensor], str]:
    """Return the results on the meta device, or why there are none."""
    try:
        # The work of a collective of meta tensors never says that it has ended, though nothing has to be waited for.
        with MixingMode() as mode, replaced(dist.Work, "is_completed", lambda work: work.wait()):
            results = _on_meta(sample)
    except Exception as error:  # NumPy, a kernel of its own, a look at the values
        return [], f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
    if mode.found:
        return [], f"{mode.found[0]} of PyTorch returns a tensor elsewhere, for a tensor that is not an argument"
    return results, ""


def _on_meta(sample: SampleCall) -> list[torch.Tensor]:
    values: list[Any] = [
        value.to("meta").requires_grad_(at in sample.active) if isinstance(value, torch.Tensor) else value
        for at, value in enumerate(sample.plain)
    ]
    moved = [value.clone() if isinstance(value, torch.Tensor) else value for value in values]
    result = sample.subject(*pytree.tree_unflatten(moved, sample.structure))
    return [leaf for leaf in pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor)]


def _is_torch_at_odds(sample: SampleCall) -> bool:
    """Whether PyTorch itself lays the result of one of the operations out otherwise on the meta device."""
    with MetaLayoutMode() as mode:
        sample.run()
    return bool(mode.found)


def _layout(tensor: torch.Tensor) -> tuple[Any, ...]:
    return tuple(tensor.shape), str(tensor.dtype), None if freed(tensor) else telling_strides(tensor)
