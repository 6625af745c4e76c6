"""MONAI: swish that saves memory, and the ReLU of guided backpropagation."""

from __future__ import annotations

from typing import Any

from conformance.kit.specs import random
from conformance.kit.subject import Subject
from published.packages import absent, bare, enter

_folder = enter("monai")
bare(_folder, "monai.networks.blocks")
bare(_folder, "monai.visualize")


def _optional(*_: object, **__: object) -> tuple[None, bool]:
    return None, False


absent("monai.networks.layers.factories", Act=None)
absent("monai.networks.utils", replace_modules_temp=None)
absent("monai.utils", optional_import=_optional)
absent("monai.utils.module", optional_import=_optional)
absent("monai.visualize.class_activation_maps", ModelWithHooks=None)


_INPUTS = [(random((4, 3), 1),)]


def _guided(args: tuple[Any, ...], grads: tuple[Any, ...]) -> tuple[Any, ...]:
    return (grads[0] * (args[0] > 0) * (grads[0] > 0),)


swish = Subject("monai.networks.blocks.activation:SwishImplementation", inputs=_INPUTS)
guided_relu = Subject(
    "monai.visualize.gradient_based:_AutoGradReLU", inputs=_INPUTS, gradient="declared", formula=_guided
)
