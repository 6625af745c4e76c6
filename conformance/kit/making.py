"""The tensors that operations make while a call runs; views of what was there before are not among them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode


class Making(TorchDispatchMode):  # type: ignore[misc]
    """Calls :meth:`made` with every tensor that has memory of its own and comes out of an operation."""

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run the operation and look at what comes of it."""
        result = function(*args, **(kwargs or {}))
        given = {storage for _, storage in _stored((args, kwargs))}
        for tensor, storage in _stored(result):
            if storage not in given:
                self.made(tensor, str(function))
        return result

    def made(self, tensor: torch.Tensor, origin: str) -> None:
        """What to do with a tensor, made by the operation of this name."""
        raise NotImplementedError


def _stored(tree: Any) -> Iterator[tuple[torch.Tensor, int]]:
    """The tensors in a tree that have a storage, and what tells one storage from another."""
    for leaf in pytree.tree_leaves(tree):
        if isinstance(leaf, torch.Tensor) and leaf.layout is torch.strided:
            yield leaf, leaf.untyped_storage()._cdata
