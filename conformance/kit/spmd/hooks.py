"""The signatures that a class declares for ``spmd_types``, in a hook or by a registration, as that reads them."""

from __future__ import annotations

import importlib
import itertools
import sys
from collections.abc import Sequence
from typing import Any

import torch

from conformance.core.signatures import Signature, Type
from conformance.kit.deviations import Skipped
from conformance.kit.spmd.owed import GroupCall

#: Where spmd_types keeps the classes that were registered: with rules of their own, or as working element by element.
REGISTRIES = (
    ("spmd_types.runtime", "_TYPECHECK_AUTOGRAD_FUNCTIONS"),
    ("spmd_types._local_registration", "_LOCAL_AUTOGRAD_FUNCTIONS"),
)


def declares(function: Any) -> bool:
    """Whether a Function class declares its types, in ``spmd_typecheck`` or by a registration; imports nothing."""
    registered = (getattr(sys.modules.get(module), name, ()) for module, name in REGISTRIES)
    return callable(getattr(function, "spmd_typecheck", None)) or any(function in classes for classes in registered)


def declared(run: GroupCall, tensors: Sequence[torch.Tensor], group: Any) -> tuple[list[Signature], str]:
    """Call a Function with tensors of all types, and read the types of its results if the hook accepts them.

    The hook is a rule, not a signature: it may accept many, or none; then the first line of its refusal says why. Every
    rank calls this, since the Function communicates. The group has two ranks or more: with one, spmd_types tracks no
    types.
    """
    try:
        spmd = importlib.import_module("spmd_types")
        typecheck = importlib.import_module("spmd_types.checker").typecheck
    except ImportError as error:
        said = f"it declares its types for spmd_types, which cannot be imported ({error}): pip install spmd-types, or"
        raise Skipped(f"{said} give types with --types") from error
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
