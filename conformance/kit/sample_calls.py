"""Make calls of the samples of a subject, and differentiate them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from conformance.kit.backward import need_backward, need_leaf, why_nothing
from conformance.kit.calls import Run, SampleCall
from conformance.kit.copies import in_layout_of, widened
from conformance.kit.deviations import need
from conformance.kit.samples import Sample
from conformance.kit.subject import Subject
from conformance.kit.tensors import dense, differentiable, freed
from conformance.kit.world import World

__all__ = ["active_samples", "differentiated", "every_sample", "in_double"]

#: Under this name a world knows whether its ranks' results have a gradient in the same places.
ALIKE = "results alike"


def active_samples(subject: Subject, world: World) -> list[SampleCall]:
    """Return the samples of a subject that have something to differentiate.

    Args:
        subject: the owner of the inputs.
        world: the ranks; each has samples of its own.

    Raises:
        NotApplicable: none has.
        Skipped: none has, and the subject is a class with a backward that returns gradients.

    >>> subject = Subject(torch.mul, inputs=lambda: [(torch.ones(2), 3.0), (torch.ones(2, dtype=torch.int64), 4)])
    >>> [sample.label for sample in active_samples(subject, World())]
    ['sample 0']
    """
    found = [sample for sample in every_sample(subject, world) if sample.active]
    need_leaf(subject, found)
    return found


def every_sample(subject: Subject, world: World) -> list[SampleCall]:
    """Return all samples of a subject.

    Args:
        subject: the owner of the inputs.
        world: the ranks; each has samples of its own.

    Raises:
        NotApplicable: a result requires grad on some ranks only, so ranks would diverge in a test.

    >>> subject = Subject(torch.mul, inputs=lambda: [(torch.ones(2), 3.0), (torch.ones(2), 4.0)])
    >>> [sample.label for sample in every_sample(subject, World())]
    ['sample 0', 'sample 1']
    """
    found = [sample_call(subject, sample) for sample in subject.samples(world)]
    if subject.is_typed and world.size > 1:
        alike = world.once(ALIKE, lambda: _results_alike(found, world))
        need(alike, "a result requires grad on some ranks only; tests with one rank judge it")
    return found


def _results_alike(found: Sequence[SampleCall], world: World) -> bool:
    """True if all ranks' results require grad in the same places, or a call raised."""
    for sample in found:
        recorded = world.try_call(lambda sample: [tensor.requires_grad for tensor in sample.run().tensors], sample)
        if recorded is None:  # tests of their own say what it means
            return True
        everyones = world.exchange(recorded)
        if any(theirs != everyones[0] for theirs in everyones):
            return False
    return True


def sample_call(subject: Subject, sample: Sample) -> SampleCall:
    """Return the call of a sample, flattened; if no tensor of it requires grad, every differentiable one is active."""
    values, structure = pytree.tree_flatten(sample.args)
    owners, paths = zip(*_paths(sample.args), strict=True) if values else ((), ())
    names = [f"input {owner}{path}" for owner, path in zip(owners, paths, strict=True)]
    tensors = {at: value for at, value in enumerate(values) if isinstance(value, torch.Tensor)}
    asked = [at for at, tensor in tensors.items() if tensor.requires_grad]
    candidates = [at for at in asked or tensors if differentiable(tensors[at])]
    active = tuple(at for at in candidates if at not in sample.tied)
    of_modules = tuple(at for at in candidates if at in sample.tied)
    top = frozenset(at for at, path in enumerate(paths) if not path)
    return SampleCall(subject, sample.label, tuple(values), structure, tuple(names), owners, active, top, of_modules)


def _paths(args: tuple[Any, ...]) -> Iterator[tuple[int, str]]:
    """Return, for each value, its argument and its place in there."""
    for index, arg in enumerate(args):
        for path, _ in pytree.tree_flatten_with_path(arg)[0]:
            yield index, pytree.keystr(path)


def differentiated(subject: Subject, world: World) -> list[tuple[SampleCall, Run]]:
    """Return every sample whose result can be differentiated, with a call of it.

    Args:
        subject: the owner of the inputs.
        world: the ranks; each has samples of its own.

    Raises:
        NotApplicable: no result can.
        Skipped: no result has a tensor at all, or none but eight-bit floats, so the backward that the class defines is
            never called.

    >>> subject = Subject(torch.mul, inputs=lambda: [(torch.ones(2, requires_grad=True), 3.0)])
    >>> [(sample, run)] = differentiated(subject, World())
    >>> run.gradients([torch.ones(2)])
    (tensor([3., 3.]),)
    """
    need_backward(subject)
    runs = [(sample, sample.run()) for sample in active_samples(subject, world)]
    found = [(sample, run) for sample, run in runs if run.outputs]
    if not found:
        why = why_nothing([run for _, run in runs])
        raise why
    return found


def differentiate(sample: SampleCall) -> bool:
    """Call the subject and go through its backward once; return whether there was a result to differentiate."""
    run = sample.run()
    if run.outputs:
        run.gradients([in_layout_of(output, torch.ones_like(dense(output.detach()))) for output in run.outputs])
    return bool(run.outputs)


def copied(run: Run, world: World) -> list[torch.Tensor]:
    """Return copies of the results and of all gradients, so that another call can be compared with this one.

    Args:
        run: the call.
        world: makes the incoming gradients.
    """
    results, gradients = run.copies(run.cotangents(world))
    return [*results, *gradients]


def names(run: Run) -> Iterator[str]:
    """Yield the name of each of them."""
    yield from (f"output {index}" for index, tensor in enumerate(run.tensors) if not freed(tensor))
    yield from (f"gradient of {run.sample.names[at]}" for at in run.leaves if run.outputs)


def copied_by_name(run: Run, world: World) -> dict[str, torch.Tensor]:
    """Return these copies, each by its name."""
    return dict(zip(list(names(run)), copied(run, world), strict=True))  # names first: backward may free results


def in_double(sample: SampleCall, use: Callable[[SampleCall], object] = differentiate) -> SampleCall:
    """Return the call in double precision, or unchanged if it raises there: a kernel may have one dtype.

    Args:
        sample: the call.
        use: what must not raise with the call in double precision; forward and backward, if nothing is given.

    >>> subject = Subject(torch.mul, inputs=lambda: [(torch.ones(2, requires_grad=True), 3.0)])
    >>> in_double(active_samples(subject, World())[0]).values[0].dtype
    torch.float64
    """
    wide = {at: widened(value) for at, value in enumerate(sample.values) if isinstance(value, torch.Tensor)}
    if all(wide[at].dtype == sample.values[at].dtype for at in wide):
        return sample
    candidate = sample.having(wide)
    try:
        use(candidate)
    except Exception:
        return sample
    return candidate


def parameters_of(subject: Subject) -> list[inspect.Parameter]:
    """List what forward, or a plain callable, calls its arguments, without ctx; nothing if that is unknown."""
    called: Any = subject.function.forward if subject.function else subject.target
    try:
        found = [] if subject.call else list(inspect.signature(called).parameters.values())
    except (TypeError, ValueError):
        return []
    return found[int(subject.function is not None and not subject.separate) :]
