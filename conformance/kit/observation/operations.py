"""List the PyTorch operations that a static method of a Function carries out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from conformance.kit.deviations import need
from conformance.kit.modes import OperationMode, carry_out
from conformance.kit.stand_ins import standing_in
from conformance.kit.subject import Subject
from conformance.kit.tensors import tensor_leaves

#: Operations that give a tensor's own values again.
KEEPING = {"aten::alias", "aten::clone", "aten::detach", "aten::lift_fresh", "aten::_to_copy", "aten::copy_"}
#: Operations that take no more of a tensor than its shape and dtype.
CONSTANT = {
    *(f"aten::{name}_like" for name in ("empty", "zeros", "ones", "full")),
    *(f"aten::new_{name}" for name in ("empty", "empty_strided", "zeros", "ones", "full")),
}


@dataclass(frozen=True)
class Operation:
    """One operation: its name, its tensor arguments, and its results.

    ``wanted`` are the arguments that required grad when it ran: an output that forward filled requires grad later.
    """

    name: str
    is_view: bool
    given: tuple[torch.Tensor, ...]
    wanted: tuple[torch.Tensor, ...]
    made: tuple[torch.Tensor, ...]

    @property
    def hands_on(self) -> bool:
        """Whether it returns existing values in a view or a copy, and does not declare that it needs no gradient."""
        return self.name != "aten::detach" and (self.is_view or self.name in KEEPING)

    @property
    def keeps(self) -> bool:
        """Whether it returns existing values, in a view, a copy or a number, or constants."""
        return self.is_view or self.name in KEEPING | CONSTANT or self.name == "aten::_local_scalar_dense"


@dataclass(frozen=True)
class MethodCall:
    """One call of the method: its arguments, and its operations in order."""

    args: tuple[Any, ...]
    operations: list[Operation]


class _Noting(OperationMode):
    def __init__(self, operations: list[Operation]) -> None:
        super().__init__()
        self.operations = operations

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name, given = str(function.name()).partition(".")[0], tuple(tensor_leaves((args, kwargs)))
        # What torch.tensor() has just made is handed in here, and out again.
        wanted = () if name == "aten::lift_fresh" else tuple(tensor for tensor in given if tensor.requires_grad)
        result = carry_out(function, args, kwargs)
        self.operations.append(Operation(name, bool(function.is_view), given, wanted, tuple(tensor_leaves(result))))
        return result


def operations_of(subject: Subject, member: str) -> tuple[Subject, list[MethodCall]]:
    """The subject on a subclass whose method notes its operations, and a list that each call of it is added to.

    Raises:
        NotApplicable: the class does not define the method, or the subject is no class.
    """
    need(subject.function is not None, "a plain callable: it has no methods to watch")
    need(subject.defines(member), f"the class does not define {member}")
    need(not subject.defines("__call__"), "its methods belong to an instance, not to the class")
    calls: list[MethodCall] = []
    original: Callable[..., Any] = getattr(subject.function, member)

    def noted(*args: Any, **kwargs: Any) -> Any:
        calls.append(MethodCall((*args, *kwargs.values()), []))
        with _Noting(calls[-1].operations):
            return original(*args, **kwargs)

    return subject.overriding(**{member: standing_in(original, noted)}), calls
