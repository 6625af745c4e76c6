"""Dispatch modes: replace operations, record the tensors that they allocate, and numbers made of empty tensors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from conformance.kit.tensors import differentiable, is_strided

#: Dispatch keys that PyTorch resolves lazily. Below a mode it leaves these out, and a kernel that conjugates
#: inside, such as that of ``torch.linalg.pinv``, computes something else.
_PUT_OFF = [torch._C.DispatchKey.Conjugate, torch._C.DispatchKey.Negative, torch._C.DispatchKey.ZeroTensor]


def carry_out(operation: Any, args: Any, kwargs: Any) -> Any:
    """Run an operation that a mode received, as PyTorch does without the mode."""
    with torch._C._PreserveDispatchKeyGuard():
        for key in _PUT_OFF:
            torch._C._dispatch_tls_set_dispatch_key_excluded(key, False)
        return operation(*args, **(kwargs or {}))


class OperationMode(TorchDispatchMode):
    """Base class of the suite's modes: it runs around operations, and does not affect the compiler."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # Otherwise the first use imports the compiler: a second of time, and marks left all over the process.
        return False


class AllocationMode(OperationMode):
    """Calls :meth:`allocated` with every tensor that an operation returns in memory of its own; views have none."""

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run the operation and record what it allocates."""
        result = carry_out(function, args, kwargs)
        given = {storage for _, storage in _stored((args, kwargs))}
        for tensor, storage in _stored(result):
            if storage not in given:
                self.allocated(tensor, str(function))
        return result

    def allocated(self, tensor: torch.Tensor, origin: str) -> None:
        """Record a tensor and the name of the operation that made it."""
        raise NotImplementedError


class UndefinedMode(OperationMode):
    """Records the operations that make a number of an empty tensor: its mean is NaN, its logsumexp infinite."""

    def __init__(self) -> None:
        super().__init__()
        self.undefined: list[str] = []

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run the operation and look at its result."""
        result = carry_out(function, args, kwargs)
        of_nothing = any(leaf.numel() == 0 for leaf in _floating((args, kwargs)))
        for made in map(torch.Tensor.detach, _floating(result)):
            if bool(made.isnan().any()) or (of_nothing and bool(made.isinf().any())):
                self.undefined.append(str(function))
        return result


class DrawingMode(OperationMode):
    """Records the operations that draw random numbers, from any generator."""

    def __init__(self) -> None:
        super().__init__()
        self.drew: list[str] = []

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run the operation, and record it if it draws."""
        if torch.Tag.nondeterministic_seeded in function.tags:
            self.drew.append(str(function))
        return carry_out(function, args, kwargs)


def written_to(operation: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[torch.Tensor]:
    """Return the tensors that an operation writes to, by its schema.

    >>> x = torch.ones(2)
    >>> written_to(torch.ops.aten.add_.Tensor, (x, 1.0), {})[0] is x
    True
    """
    declared = operation._schema.arguments
    given = [*zip(declared, args, strict=False), *((one, kwargs[one.name]) for one in declared if one.name in kwargs)]
    written = [value for one, value in given if one.alias_info is not None and one.alias_info.is_write]
    return [leaf for leaf in pytree.tree_leaves(written) if isinstance(leaf, torch.Tensor)]


def _floating(tree: Any) -> list[torch.Tensor]:
    return [leaf for leaf in pytree.tree_leaves(tree) if isinstance(leaf, torch.Tensor) and differentiable(leaf)]


def _stored(tree: Any) -> Iterator[tuple[torch.Tensor, int]]:
    """Return the tensors in a tree that have a storage, and an identifier of each storage."""
    for leaf in pytree.tree_leaves(tree):
        if isinstance(leaf, torch.Tensor) and is_strided(leaf):
            yield leaf, leaf.untyped_storage()._cdata
