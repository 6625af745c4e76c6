"""Call and differentiate every sample under the witness, and keep what it recorded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import torch
from torch.autograd import forward_ad

from conformance.kit import expect
from conformance.kit.calls import Run, SampleCall, ending, leaf_gradients
from conformance.kit.deviations import NO_JVP, need
from conformance.kit.graph import functions_behind
from conformance.kit.observation.ctx_tensors import tensors_on
from conformance.kit.observation.witness import (
    EARLY,
    LAST_COUNTS,
    TOO_LATE,
    Backward,
    Jvp,
    ObservedCall,
    Step,
    Witness,
    witnessing,
)
from conformance.kit.sample_calls import every_sample
from conformance.kit.subject import Subject
from conformance.kit.variations.sizes import LONGER, resized
from conformance.kit.variations.variants import in_dtype
from conformance.kit.world import World

#: Incoming gradients, as they were handed in and as they are afterwards.
Pairs = tuple[tuple[torch.Tensor, torch.Tensor], ...]


@dataclass(frozen=True)
class WitnessedCall:
    """One sample's call: the witness's record, and the exception that ended it, if any."""

    sample: SampleCall
    witness: Witness
    cotangents: Pairs = ()
    error: Exception | None = None


#: Dtypes to try: ``x.float()`` returns x itself where that is float32 already, so a change in place shows only there.
DTYPES = (torch.float64, torch.float32, torch.float16, torch.bfloat16)


def look_at(subject: Subject, world: World, everything: bool = False, derived: bool = False) -> list[WitnessedCall]:
    """Call every sample forward and backward under the witness; an exception in backward does not end it.

    A world calls them once, however many tests look at what was seen.

    Args:
        subject: what to call.
        world: the ranks.
        everything: also without gradients, in forward mode where there is a jvp, and differentiated twice.
        derived: also with the samples in other dtypes and made longer, where the subject takes that.

    Raises:
        NotApplicable: no Function class is at work.
        Exception: forward raised it.
    """
    samples = cache(lambda: every_sample(subject, world))  # made only for what was not seen yet: there may be many
    functions = _functions(subject, world, samples)
    looks = world.once(
        (subject.label, "backward"),
        lambda: [_look(world, functions, sample, lambda run: _backward(run, world)) for sample in samples()],
    )
    if everything:
        looks = looks + world.once((subject.label, "else"), lambda: _otherwise(subject, world, functions, samples()))
    if derived:
        looks = looks + world.once((subject.label, "derived"), lambda: _derived(world, functions, samples()))
    for look in looks:
        # What is raised after forward is for other clauses to say.
        if look.error is not None and not any(call.complete for call in look.witness.calls):
            raise look.error
    return looks


def look_at_forward_mode(subject: Subject, world: World, derived: bool = False) -> list[WitnessedCall]:
    """Call every sample in forward mode under the witness; an exception there does not end it.

    Raises:
        NotApplicable: no Function class is at work, or none that defines jvp.
    """
    samples = [sample for sample in every_sample(subject, world) if sample.active]
    functions = _functions(subject, world, lambda: samples)
    need(any(map(_has_jvp, functions)), NO_JVP)
    looks = world.once((subject.label, "forward mode"), lambda: _duals(world, functions, samples))
    if derived:
        looks = looks + world.once(
            (subject.label, "forward mode, derived"), lambda: _duals(world, functions, _derived_from(samples, world))
        )
    return looks


def _duals(world: World, functions: tuple[type, ...], samples: list[SampleCall]) -> list[WitnessedCall]:
    return [_look(world, functions, sample, None, dual=True, lenient=True) for sample in samples]


def _functions(subject: Subject, world: World, samples: Callable[[], list[SampleCall]]) -> tuple[type, ...]:
    found = world.once(
        (subject.label, "functions"),
        lambda: function_classes(subject, lambda: [sample.run().result for sample in samples()]),
    )
    need(found, "the graph of the results contains no Function class")
    return found


def _has_jvp(function: type) -> bool:
    return getattr(function, "jvp", None) is not torch.autograd.Function.jvp


def _otherwise(
    subject: Subject, world: World, functions: tuple[type, ...], samples: list[SampleCall]
) -> list[WitnessedCall]:
    looks = [_look(world, functions, sample, None, needed=()) for sample in samples]
    if any(map(_has_jvp, functions)):
        looks += _duals(world, functions, samples)
    if not subject.gathers:
        looks += [_look(world, functions, sample, lambda run: _twice(run, world), lenient=True) for sample in samples]
    return looks


def _derived(world: World, functions: tuple[type, ...], samples: list[SampleCall]) -> list[WitnessedCall]:
    samples = _derived_from(samples, world)
    return [_look(world, functions, sample, lambda run: _backward(run, world), lenient=True) for sample in samples]


def _derived_from(samples: list[SampleCall], world: World) -> list[SampleCall]:
    named = ((sample, dtype, str(dtype).removeprefix("torch.")) for sample in samples for dtype in DTYPES)
    converted = ((in_dtype(sample, dtype), f"{sample.label} in {name}") for sample, dtype, name in named)
    # Where one rank has none, no rank has: the others would wait for it.
    longer = [world.try_call(resized, sample, LONGER) for sample in samples if sample.active]
    return [*(replace(sample, label=label) for sample, label in converted if sample is not None), *filter(None, longer)]


def steps(looks: list[WitnessedCall], method: str) -> list[tuple[str, ObservedCall, Step]]:
    """Return every recorded call of one method of ctx, with a name for messages."""
    return [(name, call, step) for name, call in named_calls(looks) for step in call.of(method)]


def looks_with(method: str, subject: Subject, world: World) -> list[WitnessedCall]:
    """Look at everything; not applicable unless a method of ctx is called."""
    looks = look_at(subject, world, everything=True)
    need(steps(looks, method), f"{method} is not called")
    return looks


def named_calls(looks: list[WitnessedCall], method: str = "") -> list[tuple[str, ObservedCall]]:
    """Return every recorded call of a Function, with its name, or a method's such as ``.jvp``, for messages."""
    pairs = [(look.sample.label, call) for look in looks for call in look.witness.calls]
    return [(f"{call.function.__name__}{method}, {label}", call) for label, call in pairs]


def backwards(looks: list[WitnessedCall]) -> list[tuple[str, ObservedCall, Backward]]:
    """Return every recorded backward, with a name for messages and its call; not applicable if there is none."""
    found = [(name, call, backward) for name, call in named_calls(looks, ".backward") for backward in call.backwards]
    need(found, "no backward of a Function class was reached")
    return found


def jvps(looks: list[WitnessedCall]) -> list[tuple[str, ObservedCall, Jvp]]:
    """Return every recorded jvp, with a name for messages and its call; not applicable if there is none."""
    found = [(name, call, jvp) for name, call in named_calls(looks, ".jvp") for jvp in call.jvps]
    need(found, "its calls reach no jvp")
    return found


def expect_once(looks: list[WitnessedCall], method: str) -> None:
    """Assert that each call of a Function calls a method of ctx at most once before backward."""
    for name, call in named_calls(looks):
        early = [step.phase for step in call.of(method) if step.phase in EARLY]
        told = f"{len(early)}, from {', '.join(early)}"
        expect.that(len(early) <= 1, f"calls of {method} in one call of {name}", told, "at most 1", LAST_COUNTS)


def expect_early(looks: list[WitnessedCall], method: str) -> None:
    """Assert that only forward or setup_context calls a method of ctx."""
    for name, _, step in steps(looks, method):
        is_early, where = step.phase in EARLY, f"where {method} is called, {name}"
        expect.that(is_early, where, step.phase, "forward or setup_context", TOO_LATE)


def function_classes(subject: Subject, call: Callable[[], Any]) -> tuple[type, ...]:
    """Return the subject's class; for a callable, or a class that applies another one, those behind the result."""
    own = subject.function
    try:
        behind = functions_behind(call())
    except Exception:
        if own is None:
            raise
        return (own,)
    return (own,) if own is not None and (own in behind or not behind) else tuple(behind)


def _look(
    world: World,
    functions: tuple[type, ...],
    sample: SampleCall,
    after: Callable[[Run], Pairs] | None,
    *,
    needed: tuple[int, ...] | None = None,
    dual: bool = False,
    lenient: bool = False,
) -> WitnessedCall:
    """Call a sample under the witness and differentiate it; a lenient look keeps no exception.

    Raises:
        RaisedAlone: this rank raised, and the others wait for it.
    """
    with witnessing(*functions) as witness:
        try:
            run = forward_mode_run(sample) if dual else sample.run(needed=needed)
            for call in witness.calls:
                call.kept = tuple(tensors_on(call.context, foreign=call.inputs))
            pairs = after(run) if after else ()
        except Exception as error:
            world.after_call(error)
            return WitnessedCall(sample, witness, error=None if lenient else error)
    world.after_call(False)
    return WitnessedCall(sample, witness, pairs)


def _backward(run: Run, world: World) -> Pairs:
    if not run.outputs:
        return ()
    cotangents = run.cotangents(world)
    before = [cotangent.clone() for cotangent in cotangents]
    with ending(run.sample, "backward"):
        leaf_gradients(run.outputs, list(run.leaves.values()), cotangents)
    return tuple(zip(before, cotangents, strict=True))


def _twice(run: Run, world: World) -> Pairs:
    if not run.outputs:
        return ()
    cotangents = [cotangent.requires_grad_() for cotangent in run.cotangents(world)]
    first = [g for g in run.gradients(cotangents, create_graph=True) if g is not None and g.requires_grad]
    torch.autograd.grad(first, cotangents, [torch.ones_like(g) for g in first], allow_unused=True)
    return ()


def forward_mode_run(sample: SampleCall, seed: int = 0) -> Run:
    """Call the subject with a tangent of ones for every differentiated input; another seed gives other numbers."""
    with forward_ad.dual_level():
        duals = {
            at: forward_ad.make_dual(sample.values[at].detach().clone(), torch.ones_like(sample.values[at]).detach())
            for at in sample.active
        }
        return sample.called_with([duals.get(at, value) for at, value in enumerate(sample.plain)], {}, seed)
