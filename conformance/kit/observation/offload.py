"""Call with copies of the saved tensors, while everything else that belongs to the call is overwritten."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch.autograd.graph import saved_tensors_hooks
from torch.utils import _pytree as pytree

from conformance.kit.calls import Run, SampleCall
from conformance.kit.graph import contexts_behind
from conformance.kit.modes import AllocationMode
from conformance.kit.observation.ctx_tensors import arrays_on
from conformance.kit.samples import behind_callable
from conformance.kit.tensors import address, differentiable, freed, stored_values


class _Tensors(AllocationMode):
    """Collects the tensors that operations make."""

    def __init__(self) -> None:
        super().__init__()
        self.tensors: list[torch.Tensor] = []
        self.carrying = False

    def allocated(self, tensor: torch.Tensor, origin: str) -> None:
        """Keep it, unless it is a copy that is being carried away."""
        if not self.carrying:
            self.tensors.append(tensor)


def offloaded(sample: SampleCall, overwriting: bool = True) -> Run:
    """Call with hooks that keep copies of saved tensors, then overwrite inputs, outputs and intermediate tensors.

    What was made by an earlier call, and the caller's own objects, are left alone: a Function may have constants. So is
    what a function closes over that was handed to it: it is the caller's. And what a NumPy array on ctx holds, unless
    the caller has that memory too: it is no tensor, and nobody else can change it.
    """
    all_of_it = _Tensors()

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        all_of_it.carrying = True
        try:
            return tensor.detach().clone()
        finally:
            all_of_it.carrying = False

    with saved_tensors_hooks(pack, lambda kept: kept.clone()), all_of_it:
        run = sample.run()
    if not overwriting:
        return run
    given = [run.values[at] for at in sample.of_modules]
    owned = {None, *map(address, (*_of_callers(run), *given))}
    arguments = [stored_values(arg) for arg in run.args if isinstance(arg, torch.Tensor)]
    visible = {*map(address, arguments), *(address(y) for y in pytree.tree_leaves(run.result) if torch.is_tensor(y))}
    arrays = [place for context in contexts_behind(run.result) for _, place in arrays_on(context)]
    made = [tensor for tensor in all_of_it.tensors if address(tensor) in visible or not _holds(tensor, arrays)]
    _overwrite([tensor for tensor in (*made, *arguments) if address(tensor) not in owned])
    return run


def _holds(tensor: torch.Tensor, places: list[int]) -> bool:
    """Tell whether one of these addresses is in the memory of a tensor."""
    start = address(tensor)
    return start is not None and any(0 <= place - start < tensor.untyped_storage().nbytes() for place in places)


def _of_callers(run: Run) -> Iterator[torch.Tensor]:
    """Return the tensors of modules on ctx, even if they are inputs too, and those that functions there close over.

    A function that forward made itself is not the caller's.
    """
    for context in contexts_behind(run.result):
        own = f"{type(context)._forward_cls.__qualname__}."
        for value in vars(context).values():
            if not getattr(value, "__qualname__", "").startswith(own):
                yield from _within(value)


def _within(value: Any) -> Iterator[torch.Tensor]:
    for held in [value] if isinstance(value, torch.nn.Module) else behind_callable(value):
        yield from (*held.parameters(), *held.buffers()) if isinstance(held, torch.nn.Module) else (held,)


def _overwrite(tensors: list[torch.Tensor]) -> None:
    with torch.no_grad():
        for tensor in (tensor for tensor in tensors if not freed(tensor)):
            # Through .data: the version counter stays, for it is not a change in place that is tried here.
            tensor.data.fill_(float("nan") if differentiable(tensor) else 0)
