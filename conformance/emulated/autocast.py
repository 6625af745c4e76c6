"""``torch.autocast("emulated")``: matrix products in the lower precision. Imported by ``load`` alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._pytree import tree_map_only

LOWER_PRECISION = ("mm", "matmul", "bmm", "addmm", "baddbmm", "linear", "conv1d", "conv2d", "conv3d")

_KEY = "AutocastPrivateUse1"
_AUTOCAST = torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, _KEY))
_fallthrough = torch.library.Library("_", "IMPL", _KEY)
_fallthrough.fallback(torch.library.fallthrough_kernel)
_products = torch.library.Library("aten", "IMPL", _KEY)


def _in_lower_precision(operator: Any) -> Callable[..., Any]:
    def lowered(tensor: torch.Tensor) -> torch.Tensor:
        wide = tensor.device.type == "emulated" and tensor.dtype in (torch.float32, torch.float16, torch.bfloat16)
        return tensor.to(torch.get_autocast_dtype("emulated")) if wide else tensor

    def product(*args: Any, **kwargs: Any) -> Any:
        with torch._C._ExcludeDispatchKeyGuard(_AUTOCAST):
            args, kwargs = tree_map_only(torch.Tensor, lowered, (args, kwargs))
            return operator(*args, **kwargs)

    return product


for _name in LOWER_PRECISION:
    _operator = getattr(torch.ops.aten, _name).default
    _products.impl(_operator, _in_lower_precision(_operator))
