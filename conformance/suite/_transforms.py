"""A sample's call as a function of its tensors: what forward-mode differentiation and the transforms work on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch.utils import _pytree as pytree

from conformance.suite._contract import Case, reseed

Tensors = tuple[torch.Tensor, ...]


def outputs(case: Case, given: Mapping[int, torch.Tensor]) -> Tensors:
    """Call the subject with ``given`` at their positions and copies of the sample's tensors at all others.

    The tensors given are handed on as they are: duals, batched tensors or leaves of a graph. Random numbers are
    the same every time.
    """
    values = [given[at] if at in given else _copy(value) for at, value in enumerate(case.values)]
    reseed(0)
    result = case.subject(*pytree.tree_unflatten(values, case.structure))
    return tuple(leaf for leaf in pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor))


def _copy(value: Any) -> Any:
    return value.detach().clone() if isinstance(value, torch.Tensor) else value


def tensors(case: Case) -> dict[int, torch.Tensor]:
    """The sample's tensors, detached, by position."""
    return {at: value.detach() for at, value in enumerate(case.values) if isinstance(value, torch.Tensor)}
