"""Kornia: a null space with a gradient, and the log-probability of a target."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from conformance.kit.inputs import drawn
from conformance.kit.specs import random
from conformance.kit.subject import Subject
from published.packages import bare, enter

for part in ("core", "geometry.epipolar", "losses"):
    bare(enter("kornia"), f"kornia.{part}")


def _spanned(function: Any, rows: torch.Tensor) -> torch.Tensor:
    """The projection onto the null space: the basis that spans it is not unique."""
    if rows.shape[-1] != 9:
        raise ValueError("a row of the design has nine numbers")
    basis: torch.Tensor = function.apply(rows)[0]
    return basis @ basis.mT


def _pixels() -> Iterator[tuple[Any, ...]]:
    target = torch.tensor([[0, 2, 1, 3], [3, 1, 0, 0]]).view(2, 1, 4)
    yield random((2, 4, 4), 1), target, None
    yield random((2, 4, 4), 2), target, torch.tensor([True, False, True, True, True, True, False, True]).view(2, 1, 4)


null_space = Subject("kornia.geometry.epipolar.essential:_NullSpaceBasis", inputs=drawn((2, 6, 9)), call=_spanned)
target_log_softmax = Subject("kornia.losses.focal:_TargetLogSoftmax", inputs=_pixels)
