"""NNI: clamping and rounding with straight-through gradients, and a gradient for the score of a mask."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch

from conformance.kit.inputs import drawn
from conformance.kit.subject import Subject
from published.packages import absent, bare, enter

for part in ("compression.base", "compression.utils"):
    bare(enter("nni"), f"nni.{part}")
absent("nni.compression.utils.scaling", Scaling=None)


def _clamped(function: Any, x: torch.Tensor, scale: float) -> Any:
    """Quantized to whole numbers from -2 to 2 of a scale, as an output of a module."""
    kind = __import__("nni.compression.base.target_space", fromlist=["TargetType"]).TargetType.OUTPUT
    space = SimpleNamespace(_scaler=None, zero_point=0.0, scale=scale, qmin=-2, qmax=2, type=kind)
    return function.apply(x, space)


def _straight(args: tuple[Any, ...], grads: tuple[Any, ...]) -> tuple[Any, ...]:
    return (grads[0],)


def _in_range(args: tuple[Any, ...], grads: tuple[Any, ...]) -> tuple[Any, ...]:
    x, scale = args
    return (grads[0] * ((x / scale).abs() <= 2),)


def _within_one(args: tuple[Any, ...], grads: tuple[Any, ...]) -> tuple[Any, ...]:
    return (grads[0] * (args[0].abs() <= 1),)


clamp_round = Subject(
    "nni.compression.base.apply_method:ClampRound",
    inputs=drawn((4, 3), 0.5),
    call=_clamped,
    gradient="declared",
    formula=_straight,
)
qat_clamp_round = Subject(
    "nni.compression.base.apply_method:QATClampRound",
    inputs=drawn((4, 3), 0.5),
    call=_clamped,
    gradient="declared",
    formula=_in_range,
)
bnn_clamp_round = Subject(
    "nni.compression.base.apply_method:BNNClampRound",
    inputs=drawn((4, 3), 0.5),
    call=_clamped,
    gradient="declared",
    formula=_within_one,
)
straight_through = Subject(
    "nni.compression.base.apply_method:_StraightThrough",
    inputs=drawn((4, 3), torch.eye(4, 3, dtype=torch.float64)),
    gradient="declared",
    formula=_straight,
)
