"""What forward and setup_context compute, and with which tensors."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch.utils import _pytree as pytree

from conformance.kit import expect
from conformance.kit.calls import SampleCall, every_sample
from conformance.kit.deviations import need
from conformance.kit.gradients import grads_kept
from conformance.kit.marks import clause
from conformance.kit.observation.looks import look_at
from conformance.kit.observation.operations import MethodCall, operations_of
from conformance.kit.subject import Subject
from conformance.kit.tensors import differentiable, same_values
from conformance.kit.world import World


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
    """What forward computes with requires no grad unless it is an argument, or gets its gradient all the same."""
    derived, calls = operations_of(subject, "forward")
    for sample in every_sample(derived, world):
        before = len(calls)
        run = sample.run()
        # Where no tensor of a sample requires grad, nobody asked for gradients of those in a list.
        inside = {
            id(run.values[at]): at for at in sample.active if at not in sample.top and sample.values[at].requires_grad
        }
        captured = {id(tensor): tensor for call in calls[before:] for tensor in _captured(call, set(inside))}
        for tensor in captured.values():
            if id(tensor) in inside:
                expect.that(
                    _reaches(sample, inside[id(tensor)], world),
                    f"{sample.name(inside[id(tensor)])}, a tensor inside an argument, used in forward",
                    "it requires grad, and gets no gradient: autograd does not look into containers",
                    "an argument of apply of its own, or detached where no gradient is meant",
                )
                continue
            expect.that(
                _is_copied(sample, tensor) or _gets_a_gradient(sample, tensor, world),
                f"a tensor that requires grad and is no argument, used in forward of {sample.label}",
                f"{expect.shown(tensor)}, which gets no gradient",
                "an argument of apply, or detached where no gradient is meant",
            )


def _captured(call: MethodCall, inside: set[int]) -> Iterator[torch.Tensor]:
    """Tensors that require grad, did not come as arguments, and were not made during the call.

    A view or a copy of one stands for it. Where all that is computed from it are masks and indices, nothing is lost.
    """
    known = {id(leaf) for leaf in pytree.tree_leaves(call.args)} - inside
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


def _gets_a_gradient(sample: SampleCall, tensor: torch.Tensor, world: World) -> bool:
    """Whether a backward pass hands a tensor its gradient, as a checkpoint does for the parameters of what it runs."""
    run = sample.run()
    if not run.outputs:
        return True
    came: list[torch.Tensor] = []
    held, handle = (tensor.grad if tensor.is_leaf else None), tensor.register_hook(came.append)
    before = _notes(tensor)
    try:
        with grads_kept(run.values[at] for at in sample.of_modules):
            torch.autograd.backward(run.outputs, run.cotangents(world))
            return bool(came) or _notes(tensor) != before
    finally:
        handle.remove()
        if tensor.is_leaf:
            tensor.grad = held


def _notes(tensor: torch.Tensor) -> dict[str, tuple[int, int]]:
    """Which tensors hang on a tensor, as ``grad`` or under another name, and how often each was written to."""
    own = {"grad": tensor.grad if tensor.is_leaf else None, **vars(tensor)}
    return {name: (id(found), found._version) for name, found in own.items() if isinstance(found, torch.Tensor)}


@clause("Function.forward.captures")
def test_no_result_tensor_is_inside_a_container(subject: Subject, world: World) -> None:
    """Forward returns its tensors themselves: autograd does not look into lists and dicts."""
    looks = look_at(subject, world)
    for look in looks:
        for call in look.witness.calls:
            need(look.sample.active, "no input can be differentiated")
            for index, value in enumerate(call.output if isinstance(call.output, tuple) else (call.output,)):
                inside = [leaf for leaf in pytree.tree_leaves(value) if leaf is not value and differentiable(leaf)]
                expect.that(
                    not inside,
                    f"output {index} of {call.function.__name__}, {look.sample.label}",
                    f"a {type(value).__name__} with tensors inside, which get no gradient",
                    "tensors as outputs of their own",
                )
