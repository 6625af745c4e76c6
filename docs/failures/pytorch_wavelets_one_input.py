"""pytorch_wavelets 1.3.0: SFB1D drops a gradient, and SmoothMagFn fails, where the first input needs none."""

import torch
from pytorch_wavelets.dwt.lowlevel import SFB1D
from pytorch_wavelets.scatternet.lowlevel import SmoothMagFn

filters = [torch.randn(1, 1, 2, dtype=torch.float64) for _ in range(2)]
low, high = (torch.randn(1, 1, 4, dtype=torch.float64) for _ in range(2))
high.requires_grad_()
result = SFB1D.apply(low, high, *filters, 0)
print("the result requires grad:", result.requires_grad)
(gradient,) = torch.autograd.grad(result.sum(), high, allow_unused=True)
print("the gradient of high:", gradient)
assert gradient is None

low.requires_grad_()
(gradient,) = torch.autograd.grad(SFB1D.apply(low, high, *filters, 0).sum(), high)
print("and where low requires grad too:", gradient.tolist())

x, y = torch.tensor([3.0]), torch.tensor([4.0], requires_grad=True)
try:
    SmoothMagFn.apply(x, y, 0.0).backward()
except UnboundLocalError as error:
    print("SmoothMagFn:", error)
else:
    raise AssertionError("mended")
