"""Liger Kernel: losses of a linear layer and what follows it, a part of the batch at a time, in plain PyTorch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from conformance.kit.specs import random
from conformance.kit.subject import Subject
from published.packages import bare, enter

bare(enter("liger-kernel"), "liger_kernel.chunked_loss")


def _pairs() -> Iterator[tuple[Any, ...]]:
    """Two chosen and two rejected sequences of three tokens, one of them left out."""
    target = torch.tensor([[0, 2, 4], [1, 1, -100], [3, 0, 2], [4, 2, 1]])
    reference = random((4, 3, 3), 4).detach(), random((5, 3), 5).detach(), random((5,), 6).detach()
    yield random((4, 3, 3), 1), random((5, 3), 2), target, random((5,), 3), *reference, -100, 0.5, True, False


def _first(function: Any, *args: Any) -> Any:
    """The loss; what comes with it is for logs."""
    return function.apply(*args)[0]


dpo = Subject("liger_kernel.chunked_loss.dpo_loss:LigerFusedLinearDPOFunction", inputs=_pairs, call=_first)
