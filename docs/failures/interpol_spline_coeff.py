"""torch-interpol 0.3.0, SplineCoeff: backward returns a list, which PyTorch takes for one value."""

import torch
from interpol.autograd import SplineCoeff

field = torch.randn(2, 5, 6, requires_grad=True)
coefficients = SplineCoeff.apply(field, "dct2", 3, -1, False)
try:
    coefficients.sum().backward()
except RuntimeError as error:
    print(error)
else:
    raise AssertionError("mended")
