"""UMNN 1.71, both integrals: parameters get the gradient of an integral with other limits."""

import torch
from UMNN.NeuralIntegral import NeuralIntegral
from UMNN.ParallelNeuralIntegral import ParallelNeuralIntegral


class Constant(torch.nn.Module):
    """An integrand of one value; its integral is that value times the length of the interval."""

    def __init__(self):
        super().__init__()
        self.value = torch.nn.Parameter(torch.ones(1))

    def forward(self, x, h):
        return self.value + 0 * x + 0 * h.sum()


for integral in (NeuralIntegral, ParallelNeuralIntegral):
    integrand = Constant()
    flat = integrand.value.reshape(-1)
    low, high, h = torch.ones(1, 1), torch.full((1, 1), 3.0), torch.zeros(1, 1, requires_grad=True)
    result = integral.apply(low, high, integrand, flat, h, 20)
    result.sum().backward()
    print(integral.__name__, "from 1 to 3:", result.item(), "and its gradient:", integrand.value.grad.item())
    # The interval is 2 long. Backward integrates from x0 to x0 + x, which is 3 long.
    assert torch.isclose(result, torch.tensor(2.0)).all()
    assert torch.isclose(integrand.value.grad, torch.tensor(3.0)).all()
