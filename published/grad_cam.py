"""grad-cam: guided backpropagation, which lets positive gradients alone through."""

from __future__ import annotations

from typing import Any

from conformance.kit.inputs import drawn
from conformance.kit.subject import Subject
from published.packages import bare, enter

bare(enter("grad-cam"), "pytorch_grad_cam")


def _guided(args: tuple[Any, ...], grads: tuple[Any, ...]) -> tuple[Any, ...]:
    return (grads[0].clamp(min=0) * (args[0] > 0),)


guided_relu = Subject("pytorch_grad_cam.guided_backprop:GuidedBackpropReLU", inputs=drawn((4, 3)), formula=_guided)
