"""TorchQuantum: rounding with a gradient that is clipped at three standard deviations."""

from __future__ import annotations

from typing import Any

from conformance.kit.inputs import drawn
from conformance.kit.subject import Subject
from published.packages import bare, enter

bare(enter("torchquantum"), "torchquantum.util.quantization")


def _clipped(args: tuple[Any, ...], grads: tuple[Any, ...]) -> tuple[Any, ...]:
    (grad,) = grads
    return (grad.clamp(grad.mean() - 3 * grad.std(), grad.mean() + 3 * grad.std()),)


quantize = Subject(
    "torchquantum.util.quantization.clifford_quantization:QuantizeFunction", inputs=drawn((4, 3)), formula=_clipped
)
