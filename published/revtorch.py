"""RevTorch: a sequence of reversible blocks, whose inputs are computed anew in backward."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

import torch

from conformance.kit.specs import random
from conformance.kit.subject import Subject
from published.packages import enter

enter("revtorch")


def _blocks() -> Any:
    block = importlib.import_module("revtorch").ReversibleBlock
    torch.manual_seed(1)
    layers = [torch.nn.Linear(2, 2, dtype=torch.float64) for _ in range(4)]
    pairs = zip(layers[::2], layers[1::2], strict=True)
    return torch.nn.ModuleList(block(torch.nn.Sequential(f, torch.nn.Tanh()), g) for f, g in pairs)


def _kept() -> Iterator[tuple[Any, ...]]:
    yield random((3, 4), 1), _blocks(), False


def _discarded() -> Iterator[tuple[Any, ...]]:
    yield random((3, 4), 1), _blocks(), True


reversible = Subject("revtorch.revtorch:_ReversibleModuleFunction", inputs=_kept)
reversible_eager = Subject("revtorch.revtorch:_ReversibleModuleFunction", inputs=_discarded)
