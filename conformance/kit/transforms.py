"""Calls made of calls: the gradient of a call is a call like any other, and can be differentiated in turn."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch.utils import _pytree as pytree

from conformance.kit import seeds
from conformance.kit.calls import BACKWARD_SEED, SampleCall, every_sample
from conformance.kit.tensors import differentiable
from conformance.kit.world import World

__all__ = ["is_refused", "vjp"]


def vjp(sample: SampleCall, world: World) -> SampleCall:
    """The call ``(x, g) -> g Df(x)``: the gradients of a sample's inputs, made of them and of the incoming ones.

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
    subject = replace(
        sample.subject,
        target=partial(_gradients, sample, run.places),
        call=None,
        inputs=[(*inputs, *given)],
        result=None,
        name=f"the gradient of {sample.subject.label}",
    )
    (made,) = every_sample(subject, world)
    names = (*(sample.names[at] for at in sample.active), *(f"the gradient of output {at}" for at in run.places))
    return replace(made, label=sample.label, names=names)


def _gradients(sample: SampleCall, places: tuple[int, ...], *given: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """The gradients of a sample's inputs, with their graph."""
    count = len(sample.active)
    at_place = dict(zip(sample.active, given, strict=False))
    args = [at_place[at].clone() if at in at_place else value for at, value in enumerate(sample.plain)]
    with torch.enable_grad():
        seeds.seed(0, sample.holders)
        result = sample.subject(*pytree.tree_unflatten(args, sample.structure))
        tensors = [leaf for leaf in pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor)]
        seeds.seed(BACKWARD_SEED, sample.holders)
        found = torch.autograd.grad(
            [tensors[at] for at in places], given[:count], given[count:], create_graph=True, materialize_grads=True
        )
    return tuple(found)


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
