"""Flash linear attention 0.6.0, IndexFirstAxis: a row that is taken twice gets the gradient of one of the two."""

import torch
from fla.layers.utils import index_first_axis

x = torch.arange(8.0).view(4, 2).requires_grad_()
rows = torch.tensor([0, 2, 2])
incoming = torch.tensor([[1.0, 1.0], [2.0, 2.0], [4.0, 4.0]])
(actual,) = torch.autograd.grad(index_first_axis(x, rows), x, incoming)
(expected,) = torch.autograd.grad(x[rows], x, incoming)
print("gradient by index_first_axis:", actual.tolist())
print("gradient by x[rows]:", expected.tolist())
assert expected[2].tolist() == [6, 6]
assert actual[2].tolist() in ([2, 2], [4, 4])
