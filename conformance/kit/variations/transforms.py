"""A sample's call as a function of its tensors: what forward-mode differentiation and the transforms work on."""

from __future__ import annotations

from collections.abc import Mapping

import torch
import torch.autograd.forward_ad as fwd
from torch.utils import _pytree as pytree

from conformance.kit import seeds
from conformance.kit.calls import SampleCall

Tensors = tuple[torch.Tensor, ...]
#: A tangent for each of some positions.
Direction = Mapping[int, torch.Tensor]


def outputs(sample: SampleCall, given: Mapping[int, torch.Tensor], seed: int = 0) -> Tensors:
    """Call the subject with copies of ``given`` at their positions and of the sample's own tensors at all others.

    Those given may be duals, batched tensors or part of a graph. Random numbers are the same every time.
    """
    values = {**tensors(sample), **given}
    return apart(sample, {at: value.clone() for at, value in values.items()}, seed)


def apart(sample: SampleCall, given: Mapping[int, torch.Tensor], seed: int = 0) -> Tensors:
    """Call the subject with these very tensors; give all tensors of the result, in order."""
    values = [given.get(at, value) for at, value in enumerate(sample.values)]
    seeds.seed(seed, sample.holders)
    result = sample.subject(*pytree.tree_unflatten(values, sample.structure))
    return tuple(leaf for leaf in pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor))


def tangents(sample: SampleCall, direction: Direction) -> Tensors:
    """Return the tangent of every output, zeros if it has none."""
    with fwd.dual_level():
        duals = {at: fwd.make_dual(sample.values[at].detach().clone(), u.clone()) for at, u in direction.items()}
        parts = [fwd.unpack_dual(output) for output in outputs(sample, duals)]
        return tuple(
            (torch.zeros_like(part.primal) if part.tangent is None else part.tangent).detach().clone() for part in parts
        )


def tensors(sample: SampleCall) -> dict[int, torch.Tensor]:
    """The sample's tensors, detached, by position."""
    return {at: value.detach() for at, value in enumerate(sample.values) if isinstance(value, torch.Tensor)}
