"""Fill uninitialized memory with NaN, so that reading it shows."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils import _pytree as pytree

from conformance.kit.calls import SampleCall
from conformance.kit.modes import OperationMode, carry_out
from conformance.kit.tensors import dense, differentiable, is_strided
from conformance.kit.world import World

#: Operations that make a tensor larger than its memory was.
GROWING = ("resize_", "resize_as_")
#: The message for a result that depends on such memory.
UNWRITTEN = "memory of torch.empty or a similar function is read before anything is written to it"


class FillMode(OperationMode):
    """Fills the memory that ``torch.empty`` and its like hand out with a number, NaN unless another one is given.

    So it does with what a tensor grows by.

    >>> with FillMode():
    ...     torch.empty(2), torch.empty(2).zero_(), torch.zeros(2).new_empty(1), torch.zeros(1).resize_(2)
    (tensor([nan, nan]), tensor([0., 0.]), tensor([nan]), tensor([0., nan]))
    """

    def __init__(self, number: float = torch.nan) -> None:
        super().__init__()
        self.number = number

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run the operation, and fill what it made."""
        grows = function.namespace == "aten" and function._opname in GROWING
        held = _in_memory(args[0]).numel() if grows and _is_fillable(args[0]) else 0
        result = carry_out(function, args, kwargs)
        if function.namespace == "aten" and (grows or "empty" in function._opname):
            for leaf in filter(_is_fillable, pytree.tree_leaves(result)):
                _in_memory(leaf)[held:] = self.number
        return result


def _is_fillable(value: object) -> bool:
    return differentiable(value) and is_strided(value) and not value.is_meta


def _in_memory(tensor: torch.Tensor) -> torch.Tensor:
    """All numbers of a tensor's storage, in order."""
    storage = tensor.untyped_storage()
    with torch.no_grad():
        return tensor.detach().as_strided((storage.nbytes() // tensor.element_size(),), (1,), 0)


def results_and_gradients(
    sample: SampleCall, world: World, number: float
) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """Copies of the results of a call, and of all its gradients, with a number in new memory."""
    # Drawn before new memory is filled: the suite's own tensors are none of the subject's.
    cotangents = sample.run().cotangents(world)
    with FillMode(number):
        return sample.run().copies(cotangents)


def reads_unwritten(actual: torch.Tensor, right: torch.Tensor) -> bool:
    """Tell whether a tensor is NaN with NaN in new memory, and is not with zeros there."""
    if actual.shape != right.shape or not differentiable(actual):
        return False
    return bool((dense(actual).isnan() & ~dense(right).isnan()).any())


def unwritten_in(sample: SampleCall, world: World) -> str:
    """Find what depends on such memory: results, gradients only, or nothing. On one rank only: it makes more calls."""
    if world.size > 1:
        return ""
    try:
        pairs = [results_and_gradients(sample, world, number) for number in (torch.nan, 0.0)]
    except Exception:  # a cause that cannot be found is not told
        return ""
    both = zip(("results", "gradients"), zip(*pairs, strict=True), strict=True)
    return next((part for part, (one, other) in both if any(map(reads_unwritten, one, other))), "")
