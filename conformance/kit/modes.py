"""Dispatch modes: replace operations, record the tensors that they allocate, and numbers made of empty tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from conformance.kit.deviations import NotApplicable
from conformance.kit.tensors import differentiable, is_strided, tensor_leaves

#: Dispatch keys that PyTorch resolves lazily. Below a mode it leaves these out, and a kernel that conjugates
#: inside, such as that of ``torch.linalg.pinv``, computes something else.
_PUT_OFF = [torch._C.DispatchKey.Conjugate, torch._C.DispatchKey.Negative, torch._C.DispatchKey.ZeroTensor]

#: Operators of these namespaces move data between ranks, those named here aside.
NAMESPACES = ("c10d", "_c10d_functional", "_c10d_functional_autograd")
LOCAL = ("wait_tensor", "_wrap_tensor_autograd")
#: A derived call is taken as refused after so many operations, and so many times those of a sample.
MOST_OPERATIONS, MOST_TIMES = 10_000, 20
#: What takes fewer is no iteration.
FEW_OPERATIONS = 30
#: A derived call is taken as refused if it makes a tensor of more elements, and of so many times those of all its
#: arguments: what is made of the result may take minutes. Arguments of few elements make none.
MOST_MADE, MOST_TIMES_MADE, FEW_ELEMENTS = 2**24, 64, 2**9


def carry_out(operation: Any, args: Any, kwargs: Any) -> Any:
    """Run an operation that a mode received, as PyTorch does without the mode."""
    with torch._C._PreserveDispatchKeyGuard():
        for key in _PUT_OFF:
            torch._C._dispatch_tls_set_dispatch_key_excluded(key, False)
        return operation(*args, **(kwargs or {}))


class OperationMode(TorchDispatchMode):
    """Base class of the suite's modes: it looks at operations, and does not affect the compiler."""

    def __init__(self) -> None:
        super().__init__()
        #: The names of the operations that it looked for.
        self.found: list[str] = []

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operation, and look at it."""
        result = carry_out(function, args, kwargs)
        self.look(function, (args, kwargs or {}), result)
        return result

    def look(self, function: Any, given: tuple[Any, Any], result: Any) -> None:
        """Look at an operation that has run, at its arguments and keyword arguments, and at its result."""
        raise NotImplementedError

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # Otherwise the first use imports the compiler: a second of time, and marks left all over the process.
        return False


class CollectivesMode(OperationMode):
    """Notes every collective, by its name and the arguments of its operator, before it starts."""

    def __init__(self, note: Callable[[str, tuple[Any, ...]], object]) -> None:
        super().__init__()
        self.note = note

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operation, after it is noted if it is a collective."""
        name = function.overloadpacket.__name__
        if function.namespace in NAMESPACES and name not in LOCAL:
            self.note(name.strip("_"), args)
        return carry_out(function, args, kwargs)


class CountingMode(OperationMode):
    """Counts the operations of a call."""

    def __init__(self, counts: dict[str, int], key: str) -> None:
        super().__init__()
        self.counts, self.key = counts, key
        counts[key] = 0

    def look(self, function: Any, given: tuple[Any, Any], result: Any) -> None:
        """Count an operation."""
        self.counts[self.key] += 1


class EndingMode(OperationMode):
    """Ends a loop that would go on for ever, and a call whose tensors get too large.

    An iteration need not come within its tolerance for other numbers or in a lower precision: no sample has them. No
    sample has large sizes either: a Kronecker product of two matrices has as many elements as both multiplied.
    """

    def __init__(self, taken: int, elements: int) -> None:
        super().__init__()
        self._most_made = max(MOST_MADE, MOST_TIMES_MADE * elements)
        self._most = self._left = max(MOST_OPERATIONS, MOST_TIMES * taken)

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operation, unless it would spread its arguments over too many elements.

        Raises:
            NotApplicable: it would, or it makes so many in another way.
        """
        shapes = [one.shape for one in args if isinstance(one, torch.Tensor)]
        if len(set(shapes)) > 1 and torch.Tag.pointwise in function.tags:
            self._expect_fewer(_spread(shapes))
        return super().__torch_dispatch__(function, types, args, kwargs)

    def look(self, function: Any, given: tuple[Any, Any], result: Any) -> None:
        """Count an operation and what it made; too many end the test as not applicable."""
        self._expect_fewer(max((_held(one) for one, _ in _stored(result)), default=0))
        self._left -= 1
        if self._left < 0:
            raise NotApplicable(
                f"no end after {self._most:,} operations, with numbers or a precision that no sample has"
            )

    def _expect_fewer(self, made: int) -> None:
        if made > self._most_made:
            raise NotApplicable(f"a tensor of more than {self._most_made:,} elements, with sizes that no sample has")


class AllocationMode(OperationMode):
    """Calls :meth:`allocated` with every tensor that an operation returns in memory of its own; views have none."""

    def look(self, function: Any, given: tuple[Any, Any], result: Any) -> None:
        """Record what the operation allocates."""
        before = {storage for _, storage in _stored(given)}
        for tensor, storage in _stored(result):
            if storage not in before:
                self.allocated(tensor, str(function))

    def allocated(self, tensor: torch.Tensor, origin: str) -> None:
        """Record a tensor and the name of the operation that made it."""
        raise NotImplementedError


class RecordedMode(OperationMode):
    """Records the operations that autograd records, as those of a forward that runs again in backward."""

    def look(self, function: Any, given: tuple[Any, Any], result: Any) -> None:
        """Record an operation if grad mode is on, and an argument requires grad."""
        if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensor_leaves(given)):
            self.found.append(str(function))


class UndefinedMode(OperationMode):
    """Records the operations that make a number of an empty tensor: its mean is NaN, its logsumexp infinite."""

    def look(self, function: Any, given: tuple[Any, Any], result: Any) -> None:
        """Record the operation if a number of its result is none, or infinite and of nothing."""
        of_nothing = any(leaf.numel() == 0 for leaf in _floating(given))
        for made in map(torch.Tensor.detach, _floating(result)):
            if bool(made.isnan().any()) or (of_nothing and bool(made.isinf().any())):
                self.found.append(str(function))


class DrawingMode(OperationMode):
    """Records the operations that draw random numbers, from any generator."""

    def look(self, function: Any, given: tuple[Any, Any], result: Any) -> None:
        """Record the operation if it draws."""
        if torch.Tag.nondeterministic_seeded in function.tags:
            self.found.append(str(function))


def written_to(operation: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[torch.Tensor]:
    """Return the tensors that an operation writes to, by its schema.

    >>> x = torch.ones(2)
    >>> written_to(torch.ops.aten.add_.Tensor, (x, 1.0), {})[0] is x
    True
    """
    declared = operation._schema.arguments
    given = [*zip(declared, args, strict=False), *((one, kwargs[one.name]) for one in declared if one.name in kwargs)]
    written = [value for one, value in given if one.alias_info is not None and one.alias_info.is_write]
    return tensor_leaves(written)


def _spread(shapes: Sequence[torch.Size]) -> int:
    """The number of elements that shapes have together, if none has as many alone and they fit; otherwise zero."""
    try:
        together = torch.broadcast_shapes(*shapes)
    except RuntimeError:  # the operation will say so
        return 0
    return 0 if together in shapes else together.numel()


def _held(tensor: torch.Tensor) -> int:
    """The number of elements for which a tensor has memory; an expanded one shows more."""
    return tensor.untyped_storage().nbytes() // tensor.itemsize


def _floating(tree: Any) -> list[torch.Tensor]:
    return list(filter(differentiable, pytree.tree_leaves(tree)))


def _stored(tree: Any) -> Iterator[tuple[torch.Tensor, int]]:
    """Return the tensors in a tree that have a storage, and an identifier of each storage."""
    for leaf in filter(is_strided, tensor_leaves(tree)):
        yield leaf, leaf.untyped_storage()._cdata
