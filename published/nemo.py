"""NeMo: the loss of a transducer in NumPy, and a gradient that is clamped."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from conformance.kit.inputs import drawn
from conformance.kit.specs import random
from conformance.kit.subject import Subject
from published.packages import bare, enter

bare(enter("nemo-toolkit"), "nemo.collections.asr.parts.numba.rnnt_loss")


def _utterances() -> Iterator[tuple[Any, ...]]:
    """Two utterances of four frames and two labels, the second one shorter."""
    labels, frames, lengths = torch.tensor([[1, 2], [3, 1]]), torch.tensor([4, 3]), torch.tensor([2, 1])
    yield random((2, 4, 3, 4), 1, torch.float32), labels, frames, lengths, 0


def _log_softmax(function: Any, acts: torch.Tensor, *others: Any) -> Any:
    """Without FastEmit, which weighs the gradient of each label and not the loss."""
    return function.apply(acts.log_softmax(-1), *others, 0.0)


def _clamped(args: tuple[Any, ...], grads: tuple[Any, ...]) -> tuple[Any, ...]:
    return (grads[0].clamp(-args[1], args[1]), None)


transducer = Subject(
    "nemo.collections.asr.parts.numba.rnnt_loss.rnnt_numpy:_RNNT", inputs=_utterances, call=_log_softmax
)
clamp = Subject(
    "nemo.collections.asr.parts.numba.rnnt_loss.rnnt_numpy:LogSoftmaxGradModification",
    inputs=drawn((4, 3), 0.5),
    gradient="declared",
    formula=_clamped,
)
