"""PyTorch's own collection of Functions, with which it tests its subsystems."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from conformance.kit.specs import random
from conformance.kit.subject import Subject

_ONE = [(random((3, 2), 1),)]
_TWO = [(random((3, 2), 1), random((3, 2), 2))]
_SORTED = [(random((3, 5), 1), 1)]


def _taken() -> Iterator[tuple[Any, ...]]:
    order = torch.argsort(random((3, 5), 1), dim=1)
    yield random((3, 5), 2), order, torch.argsort(order, dim=1), 1


_SELECTED = [(random((3, 5), 1), 2)]


def _scaled(args: tuple[Any, ...], grads: tuple[Any, ...]) -> tuple[Any, ...]:
    return (grads[0] * 3.14,)


numpy_cube = Subject("torch.testing._internal.autograd_function_db:NumpyCube", inputs=_ONE)
cube = Subject("torch.testing._internal.autograd_function_db:CubeGenVmap", inputs=_ONE)
numpy_cube_once = Subject("torch.testing._internal.autograd_function_db:NumpyCubeNotComposable", inputs=_ONE)
numpy_mul = Subject("torch.testing._internal.autograd_function_db:NumpyMul", inputs=_TWO)
mul = Subject("torch.testing._internal.autograd_function_db:MulGenVmap", inputs=_TWO)
numpy_exp_ = Subject("torch.testing._internal.autograd_function_db:NumpyExp_", inputs=_ONE)
numpy_sort = Subject("torch.testing._internal.autograd_function_db:NumpySort", inputs=_SORTED)
sort = Subject("torch.testing._internal.autograd_function_db:SortGenVmap", inputs=_SORTED)
numpy_take = Subject("torch.testing._internal.autograd_function_db:NumpyTake", inputs=_taken)
take = Subject("torch.testing._internal.autograd_function_db:TakeGenVmap", inputs=_taken)
select = Subject("torch.testing._internal.autograd_function_db:Select", inputs=_SELECTED)
select_generated = Subject("torch.testing._internal.autograd_function_db:SelectGenVmap", inputs=_SELECTED)
scale_grad = Subject(
    "torch.testing._internal.autograd_function_db:ScaleGradGenVmap",
    inputs=_ONE,
    gradient="declared",
    formula=_scaled,
)
default_arguments = Subject("torch.testing._internal.autograd_function_db:ForwardHasDefaultArgs", inputs=_SELECTED)
