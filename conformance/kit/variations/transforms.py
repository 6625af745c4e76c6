"""A sample's call as a function of its tensors, for transforms; and its gradient as a call of the same kind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch
import torch.autograd.forward_ad as fwd
from torch.utils import _pytree as pytree

from conformance.kit import seeds
from conformance.kit.calls import BACKWARD_SEED, SampleCall
from conformance.kit.sample_calls import every_sample
from conformance.kit.tensors import differentiable, is_strided, tensor_leaves
from conformance.kit.world import World

Tensors = tuple[torch.Tensor, ...]
#: A tangent for each of some positions.
Direction = Mapping[int, torch.Tensor]
#: The incoming gradients of more outputs are one input of the gradient, joined: it is linear in them, so moving all at
#: once shows what is wrong with one.
MANY_OUTPUTS = 6


def outputs(sample: SampleCall, given: Mapping[int, torch.Tensor], seed: int = 0) -> Tensors:
    """Call the subject with copies of ``given`` at their positions and of the sample's own tensors at all others.

    Those given may be duals, batched tensors or part of a graph. Random numbers are the same every time.
    """
    values = {**tensors(sample), **given}
    return call_with(sample, {at: value.clone() for at, value in values.items()}, seed)


def call_with(sample: SampleCall, given: Mapping[int, torch.Tensor], seed: int = 0) -> Tensors:
    """Call the subject with exactly these tensors; return all tensors of the result, in order."""
    values = [given.get(at, value) for at, value in enumerate(sample.values)]
    seeds.seed(seed, sample.holders)
    result = sample.subject(*pytree.tree_unflatten(values, sample.structure))
    return tuple(tensor_leaves(result))


def tangents(sample: SampleCall, direction: Direction) -> Tensors:
    """Return the tangent of every output, zeros if it has none."""
    with fwd.dual_level():
        duals = {at: fwd.make_dual(sample.values[at].detach().clone(), u.clone()) for at, u in direction.items()}
        parts = [fwd.unpack_dual(output) for output in outputs(sample, duals)]
        return tuple(
            (torch.zeros_like(part.primal) if part.tangent is None else part.tangent).detach().clone() for part in parts
        )


def tensors(sample: SampleCall) -> dict[int, torch.Tensor]:
    """Return the sample's tensors by position, detached."""
    return {at: value.detach() for at, value in enumerate(sample.values) if isinstance(value, torch.Tensor)}


def draws_numbers(sample: SampleCall) -> bool:
    """Whether a call draws from PyTorch's generator."""
    seeds.seed(0)
    before = torch.get_rng_state()
    outputs(sample, {})
    return not torch.equal(before, torch.get_rng_state())


def vjp(sample: SampleCall, world: World) -> SampleCall:
    """Return the call ``(x, g) -> g Df(x)``: a sample's gradients as a function of its inputs and incoming gradients.

    The incoming gradients of many outputs are joined into one input.

    >>> from conformance.kit.subject import Subject
    >>> cube = Subject(lambda x: x**3, inputs=lambda: [(torch.tensor([2.0], requires_grad=True),)])
    >>> once = vjp(every_sample(cube, World())[0], World())
    >>> twice = vjp(once, World())
    >>> [len(call.active) for call in (once, twice)]
    [2, 3]
    """
    run = sample.run()
    inputs = [sample.values[at].detach().clone().requires_grad_() for at in sample.active]
    given = [cotangent.detach().requires_grad_() for cotangent in run.cotangents(world)]
    names = [f"the gradient of output {at}" for at in run.places]
    shapes = None
    alike = len({(type(one), one.dtype, one.device) for one in given}) == 1 and all(map(is_strided, given))
    if alike and len(given) > MANY_OUTPUTS:
        shapes, names = [one.shape for one in given], ["the gradients of all outputs"]
        given = [torch.cat([one.detach().flatten() for one in given]).requires_grad_()]
    subject = replace(
        sample.subject,
        target=partial(_gradients, sample, run.places, shapes),
        call=None,
        inputs=[(*inputs, *given)],
        result=None,
        reference=None,
        name=f"the gradient of {sample.subject.label}",
    )
    (made,) = every_sample(subject, world)
    return replace(made, label=sample.label, names=(*(sample.names[at] for at in sample.active), *names))


def _gradients(
    sample: SampleCall, places: tuple[int, ...], shapes: Sequence[torch.Size] | None, *given: torch.Tensor
) -> tuple[torch.Tensor, ...]:
    """Compute the gradients of a sample's inputs with a graph; incoming ones are joined if ``shapes`` is given."""
    count = len(sample.active)
    given = tuple(one if one.requires_grad else one.detach().requires_grad_() for one in given)
    at_place = dict(zip(sample.active, given, strict=False))
    incoming: Sequence[torch.Tensor] = given[count:]
    if shapes:
        parts = incoming[0].split([shape.numel() for shape in shapes])
        incoming = [part.view(shape) for part, shape in zip(parts, shapes, strict=True)]
    args = {at: at_place[at].clone() if at in at_place else value for at, value in enumerate(sample.plain)}
    with torch.enable_grad():
        results = call_with(sample, args)
        seeds.seed(BACKWARD_SEED, sample.holders)
        found = torch.autograd.grad(
            [results[at] for at in places],
            given[:count],
            [one.clone() for one in incoming],  # which backward may write to
            create_graph=True,
            materialize_grads=True,
        )
    return tuple(_Joined.apply(one, *given) for one in found)


class _Joined(torch.autograd.Function):
    """Returns the first tensor and connects the others to its graph: one that was cut off has a derivative of zero."""

    @staticmethod
    def forward(ctx: Any, value: torch.Tensor, *others: torch.Tensor) -> torch.Tensor:
        return value.view_as(value)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        return grad, *[None] * (len(ctx.needs_input_grad) - 1)


def is_refused(call: SampleCall) -> bool:
    """Tell whether differentiating a call raises; ``backward`` is used, since it visits every node."""
    try:
        run = call.run()
        loss: Any = sum(tensor.abs().sum() for tensor in run.tensors if tensor.requires_grad and differentiable(tensor))
        if isinstance(loss, torch.Tensor):
            loss.backward()
    except Exception:
        return True
    return False
