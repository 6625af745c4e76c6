"""Pyro: logarithms with gradients of their own."""

from __future__ import annotations

from conformance.kit.specs import random
from conformance.kit.subject import Subject
from published.packages import bare, enter

bare(enter("pyro-ppl"), "pyro.ops")


_POSITIVE = [(random((4, 3), 1).detach().abs().add(0.1).requires_grad_(),)]

safe_log = Subject("pyro.ops.special:_SafeLog", inputs=_POSITIVE)
