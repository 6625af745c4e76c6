"""Calls of the class under test."""

from __future__ import annotations

from typing import Any

import torch

from conformance.reproduce.pieces.subject import Function


def fresh(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Copies of the arguments; where no tensor requires grad, all floating-point and complex ones do."""
    found = [arg for arg in args if isinstance(arg, torch.Tensor) and (arg.is_floating_point() or arg.is_complex())]
    wanted = [arg for arg in found if arg.requires_grad] or found
    return tuple(
        arg.detach().clone().requires_grad_(any(arg is one for one in wanted)) if isinstance(arg, torch.Tensor) else arg
        for arg in args
    )


def call(*args: Any) -> Any:
    """Call it with copies, since it may change its arguments in place."""
    return Function.apply(*(arg.clone() if isinstance(arg, torch.Tensor) else arg for arg in args))


def results(output: Any) -> list[torch.Tensor]:
    """The tensors of the result that can be differentiated."""
    every = output if isinstance(output, tuple | list) else [output]
    return [one for one in every if isinstance(one, torch.Tensor) and one.requires_grad]


def leaves_of(args: tuple[Any, ...]) -> list[torch.Tensor]:
    """The arguments that are differentiated."""
    return [arg for arg in args if isinstance(arg, torch.Tensor) and arg.requires_grad]
