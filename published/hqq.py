"""HQQ: matrix products with weights that are quantized and frozen."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from conformance.kit.specs import random
from conformance.kit.subject import Subject
from published.packages import absent, bare, enter

bare(enter("hqq"), "hqq.core")
absent("termcolor", colored=lambda text, *_: text)


class _Weight(torch.nn.Module):
    """Both ways to ask for the weight; a module, so that it moves to where the inputs are."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("weight", torch.linspace(-1, 1, 15, dtype=torch.float64).view(3, 5))

    def dequantize(self) -> torch.Tensor:
        return self.weight

    forward = dequantize


def inputs() -> Iterator[tuple[Any, ...]]:
    """What both are called with."""
    yield random((4, 5), 1), _Weight(), random((3,), 2)


no_cache = Subject("hqq.core.quantize:HQQMatmulNoCacheDeq", inputs=inputs)
cached = Subject("hqq.core.quantize:HQQMatmulCachedDeq", inputs=inputs)
