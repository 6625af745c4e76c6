"""entmax 1.3: the second derivative of entmax15 is NaN where the result has a zero, as it nearly always has."""

import torch
from entmax import entmax15

x = torch.tensor([[2.0, 1.0, -3.0]], dtype=torch.float64, requires_grad=True)
y = entmax15(x)
(first,) = torch.autograd.grad(y[0, 0], x, create_graph=True)
(second,) = torch.autograd.grad(first.square().sum(), x)
print("entmax15:", y.tolist(), "\nfirst derivative:", first.tolist(), "\nsecond:", second.tolist())
assert second.isnan().any()
