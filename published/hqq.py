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

_WEIGHT = torch.linspace(-1, 1, 15, dtype=torch.float64).view(3, 5)


class _Layer:
    def dequantize(self) -> torch.Tensor:
        return _WEIGHT


def _dequantized() -> torch.Tensor:
    return _WEIGHT


def _function() -> Iterator[tuple[Any, ...]]:
    yield random((4, 5), 1), _dequantized, random((3,), 2)


def _layer() -> Iterator[tuple[Any, ...]]:
    yield random((4, 5), 1), _Layer(), random((3,), 2)


no_cache = Subject("hqq.core.quantize:HQQMatmulNoCacheDeq", inputs=_function)
cached = Subject("hqq.core.quantize:HQQMatmulCachedDeq", inputs=_layer)
