"""POT, optimal transport: a value with given gradients, and the square root of a matrix."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

from conformance.kit.specs import random
from conformance.kit.subject import Subject
from published.packages import enter

enter("pot")


def __getattr__(name: str) -> Any:
    """The classes live inside the backend object; this gives them a name that can be imported."""
    if name not in {"ValFunction", "MatrixSqrtFunction"}:
        raise AttributeError(name)
    return getattr(importlib.import_module("ot.backend").TorchBackend(), name)


def _value() -> Iterator[tuple[Any, ...]]:
    gradients = random((3,), 2).detach(), random((2, 2), 3).detach()
    yield random((1,), 1).detach()[0], gradients, random((3,), 4), random((2, 2), 5)


def _given(args: tuple[Any, ...], grads: tuple[Any, ...]) -> tuple[Any, ...]:
    return None, None, *(gradient * grads[0] for gradient in args[1])


def _positive() -> Iterator[tuple[Any, ...]]:
    root = random((3, 3), 1).detach()
    yield ((root @ root.T + 0.5 * root.new_ones(3).diag()).requires_grad_(),)


val = Subject("published.pot:ValFunction", inputs=_value, gradient="declared", formula=_given)
matrix_sqrt = Subject("published.pot:MatrixSqrtFunction", inputs=_positive)
