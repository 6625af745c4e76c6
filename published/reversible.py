"""Reversible blocks of those who took Reformer's ``reversible.py`` over, each in a package of its own."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from typing import Any

import torch

from conformance.kit.specs import random


def blocks(module: str, arguments: Any, training: bool = True) -> Callable[[], Iterator[tuple[Any, ...]]]:
    """Two blocks of a module, with a tensor for them.

    Args:
        module: that has the ``ReversibleBlock``.
        arguments: of the blocks, in the form that the module takes.
        training: the mode of the blocks.
    """

    def inputs() -> Iterator[tuple[Any, ...]]:
        block = importlib.import_module(module).ReversibleBlock
        torch.manual_seed(1)
        nets = [torch.nn.Linear(2, 2, dtype=torch.float64) for _ in range(4)]
        pairs = zip(nets[::2], nets[1::2], strict=True)
        yield random((2, 3, 4), 1), torch.nn.ModuleList(block(*pair) for pair in pairs).train(training), arguments

    return inputs
