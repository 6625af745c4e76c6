"""GPyTorch 1.15.2, LogNormalCDF: gradcheck rejects its gradient where z is small, and in float64."""

import torch
from gpytorch.functions._log_normal_cdf import LogNormalCDF
from torch.autograd import gradcheck

z = torch.tensor([-1.5, -1.2, -2.0], dtype=torch.float64, requires_grad=True)
(gradient,) = torch.autograd.grad(LogNormalCDF.apply(z).sum(), z)
exact = torch.special.log_ndtr(z)
(expected,) = torch.autograd.grad(exact.sum(), z)
print("log of the cdf:", LogNormalCDF.apply(z).tolist(), "exact:", exact.tolist())
print("gradient:", gradient.tolist(), "exact:", expected.tolist())
try:
    gradcheck(LogNormalCDF.apply, z)
except Exception as error:
    print("gradcheck:", str(error).splitlines()[0])
else:
    raise AssertionError("mended")
