"""Stands for the class under test and its samples: a script has the user's own in this place."""

from __future__ import annotations

from typing import Any

import torch


class Function(torch.autograd.Function):
    """The class under test."""


def samples() -> list[tuple[Any, ...]]:
    """Argument tuples for it."""
    return []
