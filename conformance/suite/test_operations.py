"""What forward and setup_context compute, and with which tensors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet

import torch
from torch.utils import _pytree as pytree

from conformance.core.prose import with_article
from conformance.kit import (
    Run,
    SampleCall,
    Subject,
    World,
    clause,
    differentiable,
    every_sample,
    expect,
    many,
    need,
    same_values,
)
from conformance.kit.backward import need_backward
from conformance.kit.calls import grads_kept
from conformance.kit.numerics.nearby import random_direction
from conformance.kit.observation.looks import look_at, named_calls
from conformance.kit.observation.operations import MethodCall, operations_of


@clause("Function.setup_context.no-compute")
def test_setup_context_keeps_and_computes_nothing(subject: Subject, world: World) -> None:
    """The operations of setup_context on tensors are views and copies, or make masks and indices."""
    derived, calls = operations_of(subject, "setup_context")
    for sample in every_sample(derived, world):
        sample.run()
    for call in calls:
        computed = (operation for operation in call.operations if operation.given and not operation.keeps)
        # Masks and indices have no derivative to lose.
        found = [operation.name for operation in computed if any(map(differentiable, operation.made))]
        expect.that(
            not found,
            "operations in setup_context",
            ", ".join(dict.fromkeys(found)),
            "views and copies; compute in forward, and return what backward needs as an output",
        )


@clause("Function.forward.captures")
def test_no_tensor_that_requires_grad_is_used_unseen(subject: Subject, world: World) -> None:
    """A tensor that forward uses requires no grad, unless it is an argument or gets its gradient anyway."""
    derived, calls = operations_of(subject, "forward")
    for sample in every_sample(derived, world):
        before = len(calls)
        run = sample.run()
        captured = {id(tensor): tensor for call in calls[before:] for tensor in _captured(call)}
        reached = _given_gradients(run, captured, world) if captured else set()
        for place, tensor in captured.items():
            expect.that(
                place in reached or _is_copied(sample, tensor),
                f"a tensor that requires grad and is not an argument, used in forward of {sample.label}",
                f"{expect.shown(tensor)}, which gets no gradient",
                "an argument of apply, or detached if it needs no gradient",
            )


@clause("Function.backward.gradient")
def test_tensors_inside_arguments_get_their_gradients(subject: Subject, world: World) -> None:
    """A tensor in a list or a dict that requires grad, and that the result changes with, gets a gradient."""
    need(subject.gradient_kind == "numeric", "its gradient is a declared one, or is defined by its spec")
    need_backward(subject)
    derived, calls = operations_of(subject, "forward")
    judged = 0
    for sample in every_sample(derived, world):
        before = len(calls)
        run = sample.run()
        # If no tensor of a sample requires grad, gradients of those in a list are not expected.
        inside = {
            id(run.values[at]): at for at in sample.active if at not in sample.top and sample.values[at].requires_grad
        }
        captured = [id(tensor) for call in calls[before:] for tensor in _captured(call, set(inside))]
        for at in dict.fromkeys(inside[one] for one in captured if one in inside):
            judged += 1
            if world.try_call(_follows, sample, at, world):
                expect.that(
                    _reaches(sample, at, world),
                    f"{sample.name(at)}, a tensor inside an argument, which the result changes with",
                    "it requires grad, and gets no gradient: autograd does not look into containers",
                    "an argument of apply itself, or detached if it needs no gradient",
                )
    need(judged, "forward reads no tensor inside an argument that requires grad")


@clause("Function.backward.gradient")
def test_results_lead_back(subject: Subject, world: World) -> None:
    """A result that changes with an input leads back to it, unless it is marked as not differentiable."""
    need(subject.gradient_kind == "numeric", "its gradient is a declared one, or is defined by its spec")
    need_backward(subject)
    judged = 0
    for look in look_at(subject, world):
        run = look.sample.run()
        is_marked = any(call.of("mark_non_differentiable") for call in look.witness.calls)
        if run.outputs or is_marked or not any(map(differentiable, run.tensors)):
            continue
        for at in sorted(look.sample.top.intersection(look.sample.active)):
            judged += 1
            expect.that(
                not world.try_call(_follows, look.sample, at, world),
                f"result of {look.sample.label}, which changes with {look.sample.names[at]}",
                f"{_kind(run.result)}, no tensor of which leads back: autograd does not look into containers",
                "tensors as separate outputs, or marked as non-differentiable",
            )
    need(judged, "its results lead back, are marked or have no gradient, or no input is differentiated")


def _kind(result: object) -> str:
    parts = [part for part in many(result) if not differentiable(part)]
    return " and ".join(dict.fromkeys(with_article(part) for part in parts)) or with_article(result)


def _follows(sample: SampleCall, at: int, world: World) -> bool | None:
    """Whether the numbers of the result change with one value, and do not from call to call; None if not."""
    value = sample.values[at].detach()
    moved = sample.having({at: value + 0.1 * random_direction(world, value, "moved", at)})
    one, again, other = (
        [y.detach() for y in each.run().tensors if differentiable(y)] for each in (sample, sample, moved)
    )
    if len(one) != len(other) or not all(map(same_values, one, again)):
        return None
    return not all(map(same_values, one, other)) or None


def _captured(call: MethodCall, inside: AbstractSet[int] = frozenset()) -> Iterator[torch.Tensor]:
    """Tensors that require grad, did not come as arguments, and were not made during the call.

    A view or a copy of one stands for it. Where all that is computed from it are masks and indices, nothing is lost.
    What came ``inside`` of an argument counts, by identity.
    """
    known = {id(leaf) for leaf in pytree.tree_leaves(call.args)}.difference(inside)
    known |= {id(value) for value in call.args}
    behind: dict[int, list[torch.Tensor]] = {}
    for operation in call.operations:
        found: list[torch.Tensor] = []
        wanted = {id(tensor) for tensor in operation.wanted}
        for tensor in operation.given:
            is_captured = id(tensor) in wanted - known
            found += behind.get(id(tensor), [tensor] if is_captured else [])
        if operation.hands_on:
            behind |= {id(tensor): found for tensor in operation.made}
        elif not operation.keeps and any(map(differentiable, operation.made)):
            yield from found
        known |= {id(tensor) for tensor in operation.made}


def _reaches(sample: SampleCall, at: int, world: World) -> bool:
    """Whether a backward pass hands one value of a sample a gradient."""
    run = sample.run()
    with grads_kept(run.values[at] for at in sample.of_modules):
        if run.outputs:
            torch.autograd.backward(run.outputs, run.cotangents(world))
    return run.leaves[at].grad is not None


def _is_copied(sample: SampleCall, tensor: torch.Tensor) -> bool:
    """Whether an argument is a copy of a tensor: a module's parameter that its caller hands over beside the module."""
    copies = (sample.values[at] for at in sample.of_modules)
    return any(copy.device == tensor.device and same_values(copy.detach(), tensor) for copy in copies)


def _given_gradients(run: Run, tensors: Mapping[int, torch.Tensor], world: World) -> set[int]:
    """Return tensors whose .grad a backward pass fills, as a checkpoint does for parameters of what it runs.

    On the same call that used them: another call may make new tensors.
    """
    if not run.outputs:
        return set(tensors)
    came: set[int] = set()
    leaves = [tensor for tensor in tensors.values() if tensor.is_leaf]
    before = {place: _notes(tensor) for place, tensor in tensors.items()}
    handles = [tensor.register_hook(lambda _, place=place: came.add(place)) for place, tensor in tensors.items()]
    try:
        with grads_kept([*(run.values[at] for at in run.sample.of_modules), *leaves]):
            torch.autograd.backward(run.outputs, run.cotangents(world))
            return came.union(place for place, tensor in tensors.items() if _notes(tensor) != before[place])
    finally:
        for handle in handles:
            handle.remove()


def _notes(tensor: torch.Tensor) -> dict[str, tuple[int, int]]:
    """Return tensors that are attributes of a tensor, such as ``grad``, with their version."""
    own = {"grad": tensor.grad if tensor.is_leaf else None, **vars(tensor)}
    return {name: (id(found), found._version) for name, found in own.items() if isinstance(found, torch.Tensor)}


@clause("Function.forward.captures")
def test_no_result_tensor_is_inside_a_container(subject: Subject, world: World) -> None:
    """Forward returns its tensors directly: autograd does not look into lists and dicts."""
    for look in look_at(subject, world):
        for name, call in named_calls([look]):
            need(look.sample.active, "no input can be differentiated")
            leads_back = subject.gradient_kind != "numeric" or look.sample.run().outputs
            need(leads_back, "no result depends on an input in the graph; see Function.backward.gradient")
            for index, value in enumerate(many(call.output)):
                inside = [leaf for leaf in pytree.tree_leaves(value) if leaf is not value and differentiable(leaf)]
                expect.that(
                    not inside,
                    f"output {index} of {name}",
                    f"a {type(value).__name__} with tensors inside, which get no gradient",
                    "tensors as separate outputs",
                )
