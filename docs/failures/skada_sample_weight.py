"""skada 0.6.0, GradientReversalLayer: forward has a third argument, and backward returns two values."""

import torch
from skada.deep.modules import GradientReversalLayer

x = torch.randn(3, requires_grad=True)
GradientReversalLayer.apply(x, 0.5).sum().backward()
print("with two arguments:", x.grad.tolist())
try:
    GradientReversalLayer.apply(x, 0.5, torch.ones(3)).sum().backward()
except RuntimeError as error:
    print(error)
else:
    raise AssertionError("mended")
