"""RoMa 1.8.0, _ProcrustesRegularization: jvp hands on the tangent itself where forward returns a view."""

import torch
from roma.mappings import _ProcrustesRegularization
from torch.autograd import forward_ad

matrix, rotation, tangent = (torch.randn(1, 3, 3) for _ in range(3))
with forward_ad.dual_level():
    dual = forward_ad.make_dual(rotation, tangent)
    try:
        _ProcrustesRegularization.apply(matrix, dual, 0.5)
    except RuntimeError as error:
        print(error)
    else:
        raise AssertionError("the tangent is taken now")
