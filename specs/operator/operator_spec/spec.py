"""How an operator is called, and what PyTorch knows of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._library.custom_ops import OPDEFS, CustomOpDef
from torch._ops import OpOverload
from torch.utils import _pytree as pytree

from conformance.kit import Specification, need

OPERATOR = "it is no operator of torch.library: give a CustomOpDef, or an OpOverload such as torch.ops.mylib.op.default"


def overload_of(target: Any) -> OpOverload:
    """Return the operator of a subject.

    Raises:
        NotApplicable: it is none.
    """
    found = getattr(target, "_opoverload", target)
    need(isinstance(found, OpOverload), OPERATOR)
    return found


def definition_of(target: Any) -> CustomOpDef | None:
    """Return the result of ``custom_op``; None for an operator that was registered otherwise."""
    if isinstance(target, CustomOpDef):
        return target
    return OPDEFS.get(target._schema.name) if isinstance(target, OpOverload) else None


def divided(target: Any, args: tuple[Any, ...]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Divide a sample into arguments by place and by keyword: its last ones are keyword-only, in the schema's order."""
    overload = getattr(target, "_opoverload", target)
    arguments = overload._schema.arguments if isinstance(overload, OpOverload) else []
    names = [argument.name for argument in arguments if argument.kwarg_only]
    first = len(arguments) - len(names)
    if len(args) <= first or len(args) > len(arguments):
        return args, {}
    return args[:first], dict(zip(names, args[first:], strict=False))


def call(target: Any, args: tuple[Any, ...]) -> Any:
    """Call an operator with the arguments of a sample."""
    given, options = divided(target, args)
    return target(*given, **options)


def has_formula(target: Any) -> bool:
    """Tell whether it can be differentiated."""
    return _has(target, "_backward_fn", "Autograd", "AutogradCPU", "AutogradCUDA")


def has_rule(target: Any) -> bool:
    """Tell whether it has a rule for vmap."""
    return _has(target, "_vmap_fn", "FuncTorchBatched")


def _has(target: Any, member: str, *keys: str) -> bool:
    """Tell whether a rule was registered: with the definition, or for a key of the dispatcher."""
    if definition := definition_of(target):
        return getattr(definition, member) is not None
    overload = overload_of(target)
    name = ".".join(filter(None, (overload._schema.name, overload._schema.overload_name)))
    every = (*keys, "CompositeImplicitAutograd")
    return any(torch._C._dispatch_has_kernel_for_dispatch_key(name, key) for key in every)


def tensors_in(value: Any) -> list[torch.Tensor]:
    """Return the tensors among arguments or results, also those in lists."""
    return [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def each_tensor(value: Any, change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """Return the arguments with each tensor changed."""
    return pytree.tree_map_only(torch.Tensor, change, value)


def _called(target: Any) -> Any:
    """Return how to call it, with detached tensors if it has no formula: it need not be differentiable."""
    if not isinstance(target, CustomOpDef | OpOverload) or has_formula(target):
        return lambda *args: call(target, args)
    return lambda *args: call(target, each_tensor(args, torch.Tensor.detach))


specification = Specification(make=_called)
