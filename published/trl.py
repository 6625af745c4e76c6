"""TRL: log-probabilities and divergences of models with large vocabularies, a part of the logits at a time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import torch

from conformance.kit.specs import random
from conformance.kit.subject import Subject
from published.packages import absent, bare, enter

bare(enter("trl"), "trl.kernels")
bare(enter("trl"), "trl.trainer")
absent("transformers.utils", is_triton_available=lambda: False)
absent("trl.trainer.utils", maybe_gather_lm_head_ctx=lambda *_: nullcontext())


def _single(shape: tuple[int, ...], seed: int) -> torch.Tensor:
    return random(shape, seed, torch.float32)


def _tokens() -> Iterator[tuple[Any, ...]]:
    targets = torch.tensor([0, 6, 3, 3])
    yield _single((4, 5), 1), _single((7, 5), 2), _single((7,), 3), targets, 1.0, 4
    yield _single((4, 5), 4), _single((7, 5), 5), None, targets, 0.7, 16, 3.0, 1.5


def _models() -> Iterator[tuple[Any, ...]]:
    """The teacher has no gradient, as at work."""
    for beta, softcap in ((0.0, None), (0.5, 3.0), (1.0, None)):
        teacher = (_single((4, 3), 4).detach(), _single((7, 3), 5).detach(), None)
        yield _single((4, 5), 1), _single((7, 5), 2), _single((7,), 3), *teacher, beta, 1.5, 1.2, softcap


log_probability = Subject("trl.kernels.chunked_logprob:ChunkedLogProbFunction", inputs=_tokens)
divergence = Subject("trl.kernels.chunked_divergence:ChunkedDivergenceFunction", inputs=_models)
