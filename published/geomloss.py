"""GeomLoss: a gradient that counts twice."""

from __future__ import annotations

from typing import Any

from conformance.kit.specs import random
from conformance.kit.subject import Subject
from published.packages import bare, enter

bare(enter("geomloss"), "geomloss._legacy")


_INPUTS = [(random((4, 3), 1),)]


def _twice(args: tuple[Any, ...], grads: tuple[Any, ...]) -> tuple[Any, ...]:
    return (2 * grads[0],)


double_grad = Subject("geomloss._legacy.kernel_samples:DoubleGrad", inputs=_INPUTS, gradient="declared", formula=_twice)
