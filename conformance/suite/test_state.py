"""Tensors that belong to others: those saved for backward, and those of the caller."""

from __future__ import annotations

import itertools
from typing import Any

import torch

from conformance.kit import (
    Probe,
    Run,
    SampleCall,
    Subject,
    World,
    clause,
    differentiable,
    every_sample,
    expect,
    is_strided,
    need,
    same_values,
    share_memory,
    tolerances,
)
from conformance.kit.graph import contexts_behind
from conformance.kit.observation.ctx_tensors import tensors_on
from conformance.kit.tensors import address, freed, is_arrangeable, strided_parts
from conformance.kit.variations.layouts import LAYOUTS, Arrange, changes

UNSAVED = "backward reads a tensor on ctx that save_for_backward did not save, so PyTorch cannot notice the change"
ALIAS = "save_for_backward saved an alias, such as .data or a sparse tensor, whose changes are not noticed"
RESTORED = "it is changed in place and changed back, up to rounding"
UNWATCHED = "backward reads the changed memory in a way that PyTorch cannot notice"


@clause("Function.save_for_backward.protects")
def test_a_change_in_place_is_noticed_or_does_no_harm(probe: Probe) -> None:
    """After any one argument or output was changed in place, backward raises or gives the gradients of the call."""
    need(probe.world.size == 1, "checked on one rank only: a rank that raises would leave the others waiting")
    tried = 0
    for place in range(len(_named_tensors(probe.run))):
        run = probe.sample.run()
        name, tensor = _named_tensors(run)[place]
        kept = "" if freed(tensor) else _how_kept(run, tensor)
        if not _changed_in_place(tensor):
            continue
        tried += 1
        # PyTorch notices, or the Function does: then it raises.
        actual = probe.world.try_call(run.gradients, probe.cotangents)
        if actual is not None:
            probe.expect_gradients(actual, f"after {name} was changed in place without an error", likely=kept)
    need(tried, "no argument and no output can be changed in place")


def _how_kept(run: Run, tensor: torch.Tensor) -> str:
    """Where the memory of a tensor is kept for backward, as far as that can be seen."""
    for context in contexts_behind(run.result):
        if any(share_memory(tensor, found) for _, found in tensors_on(context)):
            return UNSAVED
        if any(share_memory(tensor, part) for found in context.saved_tensors for part in strided_parts(found)):
            return ALIAS
    return UNWATCHED


def _named_tensors(run: Run) -> list[tuple[str, torch.Tensor]]:
    """The tensors among the arguments and in the result of a call; not what belongs to a module of the caller's."""
    sample = run.sample
    arguments = ((sample.names[at], run.values[at]) for at in range(len(run.values)) if at not in sample.of_modules)
    outputs = ((f"output {index}", tensor) for index, tensor in enumerate(run.tensors))
    return [(name, value) for name, value in (*arguments, *outputs) if isinstance(value, torch.Tensor)]


def _changed_in_place(tensor: torch.Tensor) -> bool:
    """Give a tensor other values that it might have had; whether that was possible."""
    if not is_strided(tensor) or freed(tensor):
        return False
    before = tensor.detach().clone()
    # Integers may be indices: others than those that are there could lead out of bounds.
    other = before * 3 + 1 if differentiable(tensor) else before.reshape(-1).roll(1).reshape(before.shape)
    try:
        with torch.no_grad():
            tensor.copy_(other)
    except RuntimeError:  # its elements share memory, or it is a view that may not be changed
        return False
    return not same_values(before, tensor)


@clause("Function.forward.inputs-untouched")
def test_arguments_are_left_as_they_are(subject: Subject, world: World) -> None:
    """Forward changes no tensor inside a container, and backward changes no argument."""
    compared = 0
    for sample in every_sample(subject, world):
        before = {at: value.detach().clone() for at, value in enumerate(sample.values) if _is_plain(value)}
        run = sample.run()
        values = run.values
        results = {id(tensor) for tensor in run.tensors}
        for at in before.keys() - sample.top:
            if _is_plain(values[at]) and id(values[at]) not in results:
                compared += 1
                _expect_untouched(values[at], before[at], f"{sample.name(at)} after forward")
        middle = {at: values[at].detach().clone() for at in before if _is_plain(values[at])}
        if run.outputs:
            run.gradients(run.cotangents(world))
            for at, old in middle.items():
                compared += 1
                _expect_untouched(values[at], old, f"{sample.name(at)} after backward")
    need(compared, "there is no backward, and no tensor inside a container")


def _expect_untouched(now: torch.Tensor, before: torch.Tensor, what: str) -> None:
    """Expect a tensor to have the values that it had; a few digits do not show that it nearly has them."""
    same = same_values(before, now)
    expect.that(same, what, now, before, RESTORED if not same and _nearly(now, before) else "")


def _nearly(now: torch.Tensor, before: torch.Tensor) -> bool:
    if freed(now) or not (is_strided(now) and differentiable(now)) or now.dtype != before.dtype:
        return False
    return now.shape == before.shape and torch.allclose(
        now, before, rtol=tolerances.ABOUT_RTOL, atol=tolerances.ABOUT_ATOL, equal_nan=True
    )


def _is_plain(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and not freed(value)


@clause("Function.forward.flags-untouched")
def test_attributes_of_arguments_are_left_alone(subject: Subject, world: World) -> None:
    """After forward and backward each argument has the requires_grad, grad, shape and attributes that it had."""
    compared = 0
    for sample in every_sample(subject, world):
        for chosen, arrange in itertools.product(sorted({(), sample.active}), _arrangements(sample, world)):
            # Leaves, as parameters are: an inner backward would leave its gradient on them.
            values = [
                arrange(value) if is_arrangeable(value) and at not in sample.of_modules else value
                for at, value in enumerate(sample.plain)
            ]
            leaves = [_parameter(value) if at in chosen else value for at, value in enumerate(values)]
            tensors = {at: value for at, value in enumerate(leaves) if isinstance(value, torch.Tensor)}
            memory = {at: tensor.detach() for at, tensor in tensors.items()}
            before = {at: _attributes(tensor, memory[at]) for at, tensor in tensors.items()}
            if not _called_and_differentiated(sample, leaves, chosen, world):
                continue
            compared += 1
            for at, tensor in tensors.items():
                after = _attributes(tensor, memory[at])
                if at in sample.of_modules:  # what runs the module again may add gradients up there, on purpose
                    after["grad"] = before[at]["grad"]
                expect.that(
                    tensor.grad_fn is not None or after == before[at],
                    f"attributes of {sample.name(at)}, after {'forward and backward' if chosen else 'forward'}",
                    after,
                    before[at],
                    _cause(after, before[at]),
                )
    need(compared, "it works in place, and accepts no leaves that require grad")


def _arrangements(sample: SampleCall, world: World) -> list[Arrange]:
    """The layouts to call with: as the sample has it, and one that is not contiguous, which a rank may refuse alone."""
    transposed = LAYOUTS["transposed in memory"]
    return [torch.clone, transposed] if world.size == 1 and changes(sample, transposed) else [torch.clone]


def _parameter(value: torch.Tensor) -> torch.Tensor:
    """Make a leaf of it, on which an earlier backward pass has left a gradient."""
    leaf = value.requires_grad_()
    if is_strided(leaf) and not freed(leaf):
        leaf.grad = torch.ones_like(leaf)
    return leaf


def _called_and_differentiated(sample: SampleCall, leaves: list[Any], chosen: tuple[int, ...], world: World) -> bool:
    """Call with these tensors themselves; False if they raise an error on any rank, as in a call in place."""
    run = world.try_call(sample.called_with, leaves, {})
    if run is not None and run.outputs and chosen:
        asked = [leaves[at] for at in chosen]
        # A reentrant checkpoint refuses to be asked so; other clauses speak of errors.
        world.try_call(torch.autograd.grad, run.outputs, asked, run.cotangents(world), allow_unused=True)
    return run is not None


def _cause(attributes: dict[str, Any], before: dict[str, Any]) -> str:
    """Name the decorator that sets attributes on the first argument of forward, which it treats as ctx."""
    if attributes == {**before, "grad": attributes["grad"]}:
        return "backward writes the grad of the caller's tensor; see Function.backward.gradient"
    if "_fwd_used_autocast" not in attributes["others"]:
        return ""
    return "custom_fwd on a forward without ctx: it treats the first argument as ctx, and sets attributes on it"


def _attributes(tensor: torch.Tensor, memory: torch.Tensor) -> dict[str, Any]:
    replaced = address(tensor) != address(memory)
    return {
        "requires_grad": tensor.requires_grad,
        "grad": None if not tensor.is_leaf or tensor.grad is None else expect.shown(tensor.grad),
        "shape": tuple(tensor.shape),
        "strides": tensor.stride() if is_strided(tensor) else None,
        "dtype": str(tensor.dtype),
        "memory": "replaced" if replaced else "its own",
        "others": sorted(vars(tensor)),
    }
