"""RoMa: the nearest rotation, in both modes of differentiation."""

from __future__ import annotations

from typing import Any

from conformance.kit.inputs import drawn
from conformance.kit.subject import Subject
from published.packages import enter

enter("roma")


def _pulled(args: tuple[Any, ...], grads: tuple[Any, ...]) -> tuple[Any, ...]:
    """What the regularization adds does not depend on the gradient that comes in."""
    matrix, rotation, rate = args
    return rate * (matrix - rotation), grads[0]


procrustes = Subject(
    "roma.mappings:_ProcrustesManualDerivatives",
    inputs=drawn((2, 3, 3), True, 1e-12),
    call=lambda function, *args: function.apply(*args)[:2],
)
horn = Subject("roma.mappings:_HornEigenvectorManualDerivatives", inputs=drawn((2, 3, 3), 1e-12))
regularization = Subject(
    "roma.mappings:_ProcrustesRegularization", inputs=drawn((2, 3, 3), (2, 3, 3), 0.5), formula=_pulled
)
