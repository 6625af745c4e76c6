"""PyPose: turns as quaternions; the gradient of one is that of a small turn from the left, and a zero."""

from __future__ import annotations

import importlib
from typing import Any

import torch

from conformance.kit.inputs import drawn
from conformance.kit.subject import Subject
from published.packages import bare, enter

bare(enter("pypose"), "pypose.lietensor")


def _moved(function: Any, element: torch.Tensor) -> Any:
    """Move a point by what Exp returns: a gradient that is no derivative by itself ends in one."""
    operations = importlib.import_module("pypose.lietensor.operation")
    act, size = {"so3_Exp": (operations.SO3_Act, 3), "sim3_Exp": (operations.Sim3_Act, 7)}[function.__name__]
    if element.shape[-1] != size:
        raise ValueError(f"an element has {size} numbers")
    point = torch.tensor([1.0, 2.0, 3.0], dtype=element.dtype, device=element.device)
    return act.apply(function.apply(element), point.expand(*element.shape[:-1], 3))


def _unit(function: Any, turn: torch.Tensor, point: torch.Tensor) -> Any:
    """Four numbers are a rotation if its length is one."""
    return function.apply(torch.nn.functional.normalize(turn, dim=-1), point)


def _from_the_left(args: tuple[Any, ...], grads: tuple[Any, ...]) -> tuple[Any, ...]:
    """The moment of the gradient at the turned point, through the normalization, and the gradient turned back."""
    turn, point = args
    unit = torch.nn.functional.normalize(turn, dim=-1)
    vector, scalar = unit[..., :3], unit[..., 3:]
    forth, back = (_rotated(one[..., :3], sign * vector, scalar) for one, sign in ((point, 1), (grads[0], -1)))
    moment = torch.linalg.cross(forth, grads[0][..., :3])
    to_unit = torch.cat((moment, torch.zeros_like(scalar)), -1)
    to_turn = (to_unit - unit * (unit * to_unit).sum(-1, keepdim=True)) / turn.norm(dim=-1, keepdim=True)
    return to_turn, torch.cat((back, grads[0][..., 3:]), -1)


def _rotated(point: torch.Tensor, vector: torch.Tensor, scalar: torch.Tensor) -> torch.Tensor:
    twice = 2 * torch.linalg.cross(vector, point)
    turned: torch.Tensor = point + scalar * twice + torch.linalg.cross(vector, twice)
    return turned


turn = Subject("pypose.lietensor.operation:so3_Exp", inputs=drawn((4, 3)), call=_moved)
similarity = Subject("pypose.lietensor.operation:sim3_Exp", inputs=drawn((4, 7)), call=_moved)
act = Subject(
    "pypose.lietensor.operation:SO3_Act",
    inputs=drawn((4, 4), (4, 3)),
    call=_unit,
    gradient="declared",
    formula=_from_the_left,
)
act_homogeneous = Subject(
    "pypose.lietensor.operation:SO3_Act4",
    inputs=drawn((4, 4), (4, 4)),
    call=_unit,
    gradient="declared",
    formula=_from_the_left,
)
