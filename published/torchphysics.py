"""TorchPhysics: a power of a ReLU, and a linear layer of rows that are all equal."""

from __future__ import annotations

from typing import Any

from conformance.kit.inputs import drawn
from conformance.kit.subject import Subject
from published.packages import bare, enter

bare(enter("torchphysics"), "torchphysics.models.deeponet")


def _alike(function: Any, row: Any, weight: Any, bias: Any) -> Any:
    """The trunk sees the same points for each function."""
    return function.apply(row.expand(2, *row.shape), weight, bias)


power = Subject("torchphysics.models.activation_fn:relu_n", inputs=drawn((4, 3), 3))
trunk = Subject("torchphysics.models.deeponet.layers:linear", inputs=drawn((4, 3), (2, 3), (2,)), call=_alike)
