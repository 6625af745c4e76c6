"""memory-efficient-attention-pytorch: attention a block of rows and columns at a time, in plain PyTorch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from conformance.kit.specs import random
from conformance.kit.subject import Subject
from published.packages import bare, enter

bare(enter("memory-efficient-attention-pytorch"), "memory_efficient_attention_pytorch")


def _heads(seed: int, *lengths: int) -> tuple[torch.Tensor, ...]:
    return tuple(random((1, 2, length, 4), seed + at, torch.float32) for at, length in enumerate(lengths))


def _queries() -> Iterator[tuple[Any, ...]]:
    mask = torch.tensor([[True, True, True, False, True]])
    yield *_heads(1, 5, 5, 5), None, True, 2, 3
    yield *_heads(4, 3, 5, 5), mask, False, 2, 2


def _scaled() -> Iterator[tuple[Any, ...]]:
    """Without a mask, which it cuts into blocks of queries and not of keys; at scale 8 sums of two are clamped."""
    for given in _queries():
        yield *given[:3], None, 4.0, *given[4:]


def _on_the_sphere(function: Any, queries: torch.Tensor, keys: torch.Tensor, *others: Any) -> Any:
    """As the module calls it; sums of longer vectors would be clamped."""
    return function.apply(*(torch.nn.functional.normalize(each, dim=-1) for each in (queries, keys)), *others)


flash = Subject("memory_efficient_attention_pytorch.flash_attention:FlashAttentionFunction", inputs=_queries)
cosine = Subject(
    "memory_efficient_attention_pytorch.cosine_sim_flash_attention:FlashAttentionFunction",
    inputs=_scaled,
    call=_on_the_sphere,
)
