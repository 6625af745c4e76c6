"""DeepInverse 0.5.0, LinearSplineDerivativeFunc: the gradient of a matrix of coefficients is a vector."""

import torch
from deepinv.models.deal import LinearSplineDerivativeFunc, LinearSplineFunc

torch.manual_seed(0)
x = torch.randn(1, 2, 1, 3, 3)
coefficients = torch.randn(2, 8, requires_grad=True)
rest = (torch.tensor(-3.0), torch.tensor(3.0), 8, torch.tensor([0, 8]))
LinearSplineFunc.apply(x, coefficients, *rest).sum().backward()
print("the gradient by the spline has the shape", tuple(coefficients.grad.shape))
try:
    LinearSplineDerivativeFunc.apply(x, coefficients, *rest).sum().backward()
except RuntimeError as error:
    print(error)
else:
    raise AssertionError("mended")
