"""Pyro: logarithms with gradients of their own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from conformance.kit.specs import random
from conformance.kit.subject import Subject
from published.packages import bare, enter

bare(enter("pyro-ppl"), "pyro.ops")


def _positive() -> Iterator[tuple[Any, ...]]:
    yield (random((4, 3), 1).detach().abs().add(0.1).requires_grad_(),)


safe_log = Subject("pyro.ops.special:_SafeLog", inputs=_positive)
