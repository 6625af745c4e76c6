"""The signatures that a class declares in an ``spmd_typecheck`` hook, as PyTorch's ``spmd_types`` reads them."""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Sequence
from typing import Any

import torch

from conformance.core.signatures import Signature, Type
from conformance.kit.spmd.owed import Run


def has_hook(function: Any) -> bool:
    """Whether a Function class says by ``spmd_typecheck`` which types it takes and gives."""
    return callable(getattr(function, "spmd_typecheck", None))


def declared(run: Run, tensors: Sequence[torch.Tensor], group: Any) -> tuple[list[Signature], str]:
    """Call a Function with tensors of all types, and read the types of its results if the hook accepts them.

    The hook is a rule, not a signature: it may accept many, or none; then the first line of its refusal says why.
    Every rank calls this, since the Function communicates.

    Args:
        run: calls the Function in the group.
        tensors: what to call it with.
        group: a process group of two ranks or more; of one rank, spmd_types tracks no types.
    """
    spmd = importlib.import_module("spmd_types")
    typecheck = importlib.import_module("spmd_types.checker").typecheck
    found, refusal = [], ""
    for kinds in itertools.product(Type, repeat=len(tensors)):
        given = [tensor.detach().clone().requires_grad_(tensor.requires_grad) for tensor in tensors]
        try:
            with spmd.set_current_mesh([group]), typecheck():
                for tensor, kind in zip(given, kinds, strict=True):
                    spmd.assert_type(tensor, {group: getattr(spmd, kind.value)})
                results = [spmd.get_axis_local_type(result, group) for result in run(given)]
        except spmd.SpmdTypeError as error:
            refusal = refusal or str(error).partition("\n")[0]
            continue
        found.append(Signature(kinds, tuple(Type[kind.value] for kind in results)))
    return found, refusal
